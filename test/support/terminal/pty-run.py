"""Runs a program in a new pseudo-terminal: pty-run.py COLUMNS PROGRAM ARGUMENT...

The program's output goes to stdout, stdin is typed into the terminal. Exits with the program's code, or 128 and the number of
the signal that ended it.
"""

import fcntl
import os
import pty
import select
import struct
import sys
import termios

columns, program = int(sys.argv[1]), sys.argv[2:]
child, master = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    os.execvp(program[0], program)
inputs = [master, 0]
while master in inputs:
    for ready in select.select(inputs, [], [])[0]:
        try:
            data = os.read(ready, 65536)
        except OSError:
            # The program has closed the terminal.
            data = b""
        if data == b"":
            inputs.remove(ready)
        else:
            os.write(1 if ready == master else master, data)
_, status = os.waitpid(child, 0)
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
