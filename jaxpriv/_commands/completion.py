"""`jaxpriv completion`: a script for bash, zsh or fish that completes commands, flags and files."""

from jaxpriv._flags import make_parser

_FILES = ("config", "claim", "scores", "certificate", "out", "plot")


def completion(arguments):
    try:
        import shtab
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "completion needs shtab: pip install 'jaxpriv[completion]'"
        ) from None

    parser = make_parser()
    commands = next(action for action in parser._actions if action.dest == "command")
    for command in commands.choices.values():
        for action in command._actions:
            if action.dest in _FILES:
                action.complete = shtab.FILE
    print(shtab.complete(parser, arguments.shell))
