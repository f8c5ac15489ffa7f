"""What a person sees: answers on terminals of two sizes (test_frozen.py); tests/frozen/*/*.txt has
what goes into a pipe."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

from conftest import clean_env

SIZES = {"80x24": (80, 24), "200x50": (200, 50)}
QUESTIONS = [
    ("why", "shop"), ("path", "shop"), ("path", "shop", "--slack", "--next", "2"),
    ("waits", "locks"), ("waits", "shop", "--by", "peer"), ("procedures", "shop"),
    ("metrics", "shop", "--pop"), ("ls", "farm"), ("phases", "shop"), ("predict", "farm"),
    ("whatif", "shop"), ("estimate", "farm"), ("requests", "shop"), ("bottleneck", "shop"),
    ("diff", "shop", "shop-slow"), ("events", "shop", "--top", "5", "--sites"),
    ("check", "shop", "--max-wall", "1ms"), ("summary", "shop"), ("waits", "locks", "--wide"),
    ("path", "nosuch"), ("sql", "shop", "SELECT * FROM traffics"), ("path", "kinds"),
    ("--help",),
]


def screen(cluster, words, columns, rows, **env):
    """All that appears on a terminal of that size; that is what ipsq's output and errors are."""
    master, tty = pty.openpty()
    fcntl.ioctl(tty, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    command = subprocess.Popen(
        [cluster.build.bin("ipsq"), "--master", cluster.address, "--state", str(cluster.state),
         *words], stdin=subprocess.DEVNULL, stdout=tty, stderr=tty,
        env=clean_env(**{"TERM": "xterm", "LANG": "C.UTF-8", "NO_COLOR": "1", **env}))
    os.close(tty)
    seen = b""
    try:
        while piece := os.read(master, 65536):
            seen += piece
    except OSError:  # all have closed it
        pass
    command.wait()
    os.close(master)
    text = seen.decode().replace("\r\n", "\n")
    return re.sub(r"\r\x1b\[K(ipsq: [^\r]* s (?=\r\x1b\[K))?", "", text)


def too_wide(text, columns):
    """Lines that the terminal breaks, but errors, and a command to be copied, which stays whole."""
    return [line for line in text.splitlines() if len(line) > columns and
            not line.startswith(("    more:  ipsq ", "ipsq: "))]


FIGURE = r"(?<![\w.+-])-?\d[\d,]*(?:\.\d+)?(?:%| (?:ns|us|ms|s|B|KiB|MiB)\b)"


def cut_figures(text, whole):
    """Times, sizes and shares on the screen that are not in what a pipe gets."""
    return set(re.findall(FIGURE, text)) - set(re.findall(FIGURE, whole))
