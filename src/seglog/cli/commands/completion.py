"""`completion`: the script that lets a shell complete commands, options and paths."""

from __future__ import annotations

from seglog.cli.frame import Args, Command, argument
from seglog.terminal import output

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_SEGLOG_COMPLETE"
"""Set by the scripts when they ask the program for completions."""


def _completion(args: Args) -> int:
    from click.shell_completion import ShellComplete, get_completion_class

    from seglog.cli import build_program

    kind = get_completion_class(args.shell)
    assert kind is not None  # noqa: S101 - the three are click's own
    script = ShellComplete.source(
        kind(build_program(), {}, "seglog", VARIABLE)
    )  # click's BashComplete would start bash to check its version
    if args.json:
        output.say_json({"shell": args.shell, "script": script})
    else:
        output.say(script)
    return 0


COMMANDS = (
    Command(
        "completion",
        _completion,
        [argument("shell", choices=SHELLS, metavar="SHELL", help="bash (4.4 or newer), zsh or fish")],
        story=(
            "Load it when your shell starts:\n\n"
            'bash   eval "$(seglog completion bash)"       in ~/.bashrc\n'
            'zsh    eval "$(seglog completion zsh)"        in ~/.zshrc, after compinit\n'
            "fish   seglog completion fish | source        in ~/.config/fish/config.fish"
        ),
        examples=["seglog completion bash", "seglog completion fish"],
    ),
)
