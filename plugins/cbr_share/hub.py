"""Shared runs on a hub: push one, pull one. The hub's own client does the talking (extra `hub`)."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from cbr_share.manifest import SUFFIX
from cbr_share.unpacking import unpacked
from cbrcore.errors import CbrError, closest

CARD = "README.md"
"""What a hub shows of a repository."""
LOGIN = "hf auth login, or set HF_TOKEN; HF_ENDPOINT names another hub"


def push(file: Path, repo: str, *, private: bool = False) -> str:
    """Upload a shared run and its card, in one commit; the repository is made if it is not there.

    Returns:
        Where it is.

    Raises:
        CbrError: the file is damaged, its card is not beside it, or the hub is not reached, or refuses.
    """
    hub = _client()
    unpacked(file)  # nobody shall pull what cannot be opened
    card = file.with_suffix(".md")
    if not card.is_file():
        raise CbrError(
            f"{card}: no such file: the card of {file}", hint=f"write both: cbr export RUN {file} --overwrite"
        )
    api = hub.HfApi()
    with _told(repo):
        api.create_repo(repo, exist_ok=True, private=private)
        adds = [hub.CommitOperationAdd(name, str(path)) for name, path in ((file.name, file), (CARD, card))]
        api.create_commit(repo, adds, commit_message=f"cbr push {file.name}")
    return f"{api.endpoint}/{repo}"


def pull(repo: str, name: str | None, to: Path, *, overwrite: bool = False) -> Path:
    """Download a shared run and its card into the folder `to`; the file is checked before it gets its name.

    Args:
        name: of the file in the repository, which may be left out where there is one alone.

    Raises:
        CbrError: there is no such file, or several, or it is damaged; or the hub is not reached, or refuses.
    """
    hub = _client()
    with _told(repo), tempfile.TemporaryDirectory(prefix="cbr-pull-") as made:
        api = hub.HfApi()
        names = api.list_repo_files(repo)
        name = _chosen(repo, [each for each in names if each.endswith(SUFFIX)], name)
        target = to / Path(name).name
        for path in (target, target.with_suffix(".md")):
            if path.exists() and not overwrite:
                raise CbrError(
                    f"{path} is there already", hint="replace it with --overwrite, or name a folder: --out DIR"
                )
        got = Path(api.hf_hub_download(repo, name, local_dir=made))
        _check(got, f"{repo}/{name}")
        to.mkdir(parents=True, exist_ok=True)
        if CARD in names:
            shutil.copyfile(api.hf_hub_download(repo, CARD, local_dir=made), target.with_suffix(".md"))
        temporary = target.with_name(f".{target.name}.tmp")
        shutil.copyfile(got, temporary)
        temporary.replace(target)
    return target


def _chosen(repo: str, held: list[str], name: str | None) -> str:
    if not held:
        raise CbrError(
            f"{repo} holds no shared run (a file {SUFFIX})", hint="somebody pushes one: cbr push FILE.cbr REPO"
        )
    if name is None and len(held) == 1:
        return held[0]
    if name in held:
        return str(name)
    wrong = f"{repo} holds {len(held)} shared runs" if name is None else f"{repo} holds no {name!r}"
    likely = closest(name, held) if name else None
    raise CbrError(wrong, hint=f"name one: cbr pull {repo} {likely or held[0]} (of {', '.join(sorted(held))})")


def _check(file: Path, name: str) -> None:
    """CbrError, which names the file in the repository, if it is damaged."""
    try:
        unpacked(file)
    except CbrError as error:
        raise CbrError(error.message.replace(str(file), name), hint=error.hint) from error


def _client() -> ModuleType:
    try:
        import huggingface_hub
    except ImportError as error:
        told = "a hub needs the package huggingface_hub, which is not installed"
        raise CbrError(told, hint="pip install 'cbr-textrl[hub]'") from error
    return huggingface_hub


@contextlib.contextmanager
def _told(repo: str) -> Iterator[None]:
    """Whatever the client raises is a `CbrError` that names the repository."""
    from huggingface_hub import errors

    try:
        yield
    except CbrError:
        raise
    except errors.HFValidationError as error:
        raise CbrError(f"{repo!r} is no name of a repository", hint="name it USER/NAME") from error
    except errors.RepositoryNotFoundError as error:
        raise CbrError(f"{repo}: no such repository, or you may not see it", hint=LOGIN) from error
    except errors.HfHubHTTPError as error:
        said = getattr(error, "server_message", None) or str(error).splitlines()[0]
        raise CbrError(f"{repo}: the hub refuses: {said}", hint=LOGIN) from error
    except Exception as error:  # of whichever library it speaks with
        said = f"{repo}: the hub was not reached: {type(error).__name__}: {error}"
        raise CbrError(said, hint=f"see to the network, and: {LOGIN}") from error
