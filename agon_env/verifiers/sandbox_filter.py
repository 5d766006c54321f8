"""The system calls that a program in a sandbox is refused, as a program for the kernel's filter (seccomp).

A list of what is refused rather than of what is allowed: interpreters and libraries keep working, and what the
kernel offers beyond a program's own memory, files and processes is out of reach. Layout of the instructions and
of the data that they see: linux/filter.h, linux/seccomp.h.
"""

from __future__ import annotations

import errno
import functools
import platform
import struct
import sys
from dataclasses import dataclass

# linux/filter.h: what an instruction does; linux/seccomp.h: what it returns, and where its data are
LOAD, RETURN, IF_EQUAL, IF_GREATER_EQUAL, IF_ANY_BIT = 0x20, 0x06, 0x15, 0x35, 0x45
ALLOW, KILL, ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
NUMBER, ARCHITECTURE, ARGUMENT, SECOND_ARGUMENT = 0, 4, 16, 24

FAMILIES = (1, 2, 10, 16)
"""Sockets that are allowed: AF_UNIX, AF_INET, AF_INET6, AF_NETLINK; a network namespace holds no others for sure."""
RESERVING = (0x4030_5828, 0x4030_582A, 0x4030_5839)
"""Commands of `ioctl` that reserve space as `fallocate` does: FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE."""
NEW_NAMESPACE = 0x7E02_0000
"""All CLONE_NEW* flags that `clone` takes."""
BEYOND_X86_64 = 0x4000_0000
"""The bit of the x32 ABI, whose system calls are the same ones under other numbers."""


@dataclass(frozen=True)
class Architecture:
    """How one kind of processor numbers its system calls."""

    audit: int
    """AUDIT_ARCH_*, by which the kernel names it."""
    column: int
    """The place of its numbers in the tables below."""

    @property
    def refused(self) -> list[int]:
        """The numbers of the calls that are refused whatever their arguments."""
        return [numbers[self.column] for numbers in (MISSING | REFUSED).values()]

    @property
    def clone(self) -> int:
        """The number of the call that makes a process, and can make it a namespace."""
        return CLONE[self.column]


ARCHITECTURES = {"x86_64": Architecture(0xC000_003E, 0), "aarch64": Architecture(0xC000_00B7, 1)}

SOCKETS = {"socket": (41, 198), "socketpair": (53, 199)}
CLONE = (56, 220)
IOCTL = (16, 29)
MISSING = {
    "clone3": (435, 435),  # its flags lie in memory, where a filter can't look; libraries fall back to clone
    "memfd_create": (319, 279),  # memory that no limit of the process counts
    "memfd_secret": (447, 447),
    "io_uring_setup": (425, 425),  # does what it is asked without a system call that could be refused
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "fallocate": (285, 47),  # reserves space on the grader's disk, behind the output, that no limit of the process counts
}
"""Calls that seem not to exist (ENOSYS), so that libraries do without them: name → number on x86_64, aarch64."""
REFUSED = {
    # namespaces and file systems
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # memory, space and secrets that belong to no process
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # programs and pages that run in the kernel
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    # the machine
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "syslog": (103, 116),
}
"""Calls that are not permitted (EPERM): name → number on x86_64, aarch64."""

Instruction = tuple[int, int, int, int]
"""Operation, how many instructions to skip if it holds, how many if not, and a constant."""


def this_architecture() -> Architecture | None:
    """Return the one of this machine, None where its numbers are not known here."""
    if not sys.platform.startswith("linux") or sys.maxsize < 1 << 32:
        return None
    return ARCHITECTURES.get(platform.machine())


@functools.cache
def assembled(architecture: Architecture | None) -> bytes:
    """Return the filter as the kernel takes it; empty where there is none."""
    code = instructions(architecture) if architecture else []
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def instructions(architecture: Architecture) -> list[Instruction]:
    """Return the filter: a call of a foreign architecture kills, a refused one fails, any other is allowed."""
    column = architecture.column
    code: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (IF_EQUAL, 1, 0, architecture.audit),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
        (IF_GREATER_EQUAL, 0, 1, BEYOND_X86_64),
        (RETURN, 0, 0, ERRNO | errno.ENOSYS),
    ]
    for calls, error in ((MISSING, errno.ENOSYS), (REFUSED, errno.EPERM)):
        for numbers in calls.values():
            code += _where(numbers[column], [(RETURN, 0, 0, ERRNO | error)])
    for numbers in SOCKETS.values():
        code += _where(numbers[column], [(LOAD, 0, 0, ARGUMENT), *_unless_one_of(FAMILIES), *_refuse_or_allow()])
    code += _where(IOCTL[column], [(LOAD, 0, 0, SECOND_ARGUMENT), *_unless_one_of(RESERVING), *_refuse_or_allow()[::-1]])
    flags = (IF_ANY_BIT, 0, 1, NEW_NAMESPACE)
    code += _where(architecture.clone, [(LOAD, 0, 0, ARGUMENT), flags, *_refuse_or_allow()])
    return [*code, (RETURN, 0, 0, ALLOW)]


def _where(number: int, then: list[Instruction]) -> list[Instruction]:
    return [(IF_EQUAL, 0, len(then), number), *then]


def _unless_one_of(values: tuple[int, ...]) -> list[Instruction]:
    """Go on with the next instruction, or, if what was loaded is one of the values, with the one behind it."""
    return [(IF_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]


def _refuse_or_allow() -> list[Instruction]:
    return [(RETURN, 0, 0, ERRNO | errno.EPERM), (RETURN, 0, 0, ALLOW)]
