#!/usr/bin/python3
"""The first program of run.py's machine: puts a file system in memory over the host's,
installs the programs, the unit and the check there, and goes on as systemd."""
import ctypes
import glob
import os
import pathlib
import shutil
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
FINIT_MODULE = 313  # x86-64
MS_MOVE = 8192
ROOT = "/mnt"
NEW = pathlib.Path(ROOT + "/root")
UNITS = NEW / "etc/systemd/system"

CHECK_UNITS = {
    # Nothing of the host's own services: the check and what systemd itself needs.
    "warmpool-check.target":
        "[Unit]\nRequires=basic.target warmpool-check.service\n",
    "warmpool-check.service":
        "[Unit]\nAfter=basic.target\n"
        "[Service]\nType=oneshot\nExecStart=/bin/bash /opt/tree/check.sh\n"
        "Environment=TREE=/opt/tree HOME=/root\nTimeoutStartSec=infinity\n"
        "StandardOutput=tty\nStandardError=tty\nTTYPath=/dev/console\n"
        "ExecStopPost=/bin/systemctl poweroff --force\n",
}
# They want devices or a disk.
MASKED = ("systemd-udevd.service", "systemd-udev-trigger.service",
          "systemd-firstboot.service", "systemd-repart.service",
          "systemd-random-seed.service", "systemd-modules-load.service",
          "proc-sys-fs-binfmt_misc.automount", "systemd-binfmt.service",
          "systemd-machine-id-commit.service", "getty.target")


def mount(source, target, kind, options="", flags=0):
    if flags == 0:
        os.makedirs(target, exist_ok=True)
    if LIBC.mount(str(source).encode(), str(target).encode(), kind.encode(),
                  flags, options.encode()) != 0:
        sys.exit(f"mount {target}: {os.strerror(ctypes.get_errno())}")


def load(name):
    for path in glob.glob(f"/usr/lib/uml/modules/*/kernel/fs/**/{name}.ko",
                          recursive=True):
        fd = os.open(path, os.O_RDONLY)
        if LIBC.syscall(FINIT_MODULE, fd, b"", 0) != 0:
            sys.exit(f"{path}: {os.strerror(ctypes.get_errno())}")
        os.close(fd)


def install(stage, tree):
    shutil.copytree(stage, NEW, dirs_exist_ok=True, symlinks=True)
    # /tmp, where the tree may lie, will be empty.
    for name in ("tests/systemd/check.sh", "deploy/examples/quickstart.yaml",
                 "deploy/systemd/warmpoold.service.d/sandboxes.conf",
                 "deploy/systemd/warmpoold.service.d/subgroup.conf"):
        (NEW / "opt/tree").mkdir(parents=True, exist_ok=True)
        shutil.copy(f"{tree}/{name}", NEW / "opt/tree")
    (NEW / "etc/fstab").write_text("")
    # This is a machine, whatever the host is.
    (NEW / ".dockerenv").unlink(missing_ok=True)
    (NEW / "etc/warmpool").mkdir(exist_ok=True)
    UNITS.mkdir(parents=True, exist_ok=True)
    for link in UNITS.glob("*.wants"):
        shutil.rmtree(link)
    for name in MASKED:
        (UNITS / name).unlink(missing_ok=True)
        (UNITS / name).symlink_to("/dev/null")
    for name in ("warmpoold", "warmpoold-sandboxes"):
        shutil.copy(f"{tree}/deploy/systemd/{name}.service", UNITS)
    (UNITS / "default.target").unlink(missing_ok=True)
    (UNITS / "default.target").symlink_to("warmpool-check.target")
    (NEW / "etc/systemd/system.conf").write_text(
        "[Manager]\nShowStatus=no\nLogTarget=journal\n")
    for name, text in CHECK_UNITS.items():
        (UNITS / name).write_text(text)


def main():
    os.umask(0o022)
    stage, tree = os.environ.pop("WP_STAGE"), os.environ.pop("WP_TREE")
    load("overlay")
    mount("memory", ROOT, "tmpfs", "mode=755")
    for name in ("up", "work"):
        os.mkdir(f"{ROOT}/{name}")
    mount("overlay", NEW, "overlay",
          f"lowerdir=/,upperdir={ROOT}/up,workdir={ROOT}/work")
    install(stage, tree)
    for kind, name in (("proc", "proc"), ("sysfs", "sys"), ("devtmpfs", "dev"),
                       ("tmpfs", "run"), ("tmpfs", "tmp")):
        mount(kind, NEW / name, kind)
    os.chdir(NEW)
    # In its place, not below it: who is chrooted gets no user namespaces.
    mount(NEW, "/", "", flags=MS_MOVE)
    os.chroot(".")
    os.execv("/lib/systemd/systemd", ["/lib/systemd/systemd"])


main()
