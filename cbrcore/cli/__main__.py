"""``python -m cbrcore.cli``"""

from cbrcore.cli import main

main()
