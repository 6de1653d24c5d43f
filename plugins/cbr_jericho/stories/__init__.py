"""Story files: which there are, where they are, whether they are sound, and how to get them.

Nothing here runs a story; Jericho (native code) sees a file only after it was checked here.
"""

from cbr_jericho.stories.add import AddReport, add_stories
from cbr_jericho.stories.check import Story, check_story_file
from cbr_jericho.stories.fetch import DEFAULT_URL, fetch_stories
from cbr_jericho.stories.find import Entry, find_story, paper_inventory, user_games_folder
from cbr_jericho.stories.generated import generated_story
from cbr_jericho.stories.titles import PAPER_GAMES, PaperGame

__all__ = [
    "DEFAULT_URL",
    "PAPER_GAMES",
    "AddReport",
    "Entry",
    "PaperGame",
    "Story",
    "add_stories",
    "check_story_file",
    "fetch_stories",
    "find_story",
    "generated_story",
    "paper_inventory",
    "user_games_folder",
]
