"""A copy of the tree in which tests may change the product."""
import filecmp
import os
import shutil
import subprocess

PRODUCT = ("allocator/", "k8s/", "local/", "pool/", "proto/", "runtime/")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))


def product_files():
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "*.c"],
                           capture_output=True, text=True,
                           check=True).stdout.split()
    return [n for n in names if n.startswith(PRODUCT)]


def copy_tree(target):
    """What git knows, as it is here; files that did not change keep their
    times, so that little is built anew."""
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"],
                           capture_output=True, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        source, copy = os.path.join(ROOT, name), os.path.join(target, name)
        if os.path.islink(source):
            if not os.path.islink(copy):
                os.makedirs(os.path.dirname(copy), exist_ok=True)
                os.symlink(os.readlink(source), copy)
        elif not (os.path.exists(copy) and
                  filecmp.cmp(source, copy, shallow=False)):
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            shutil.copy(source, copy)


def configure(target, folder, *flags):
    """The debug preset in target/build/FOLDER; returns that path."""
    build = os.path.join(target, "build", folder)
    subprocess.run(["cmake", "--preset", "dev", "-B", build,
                    "-DWP_WERROR=OFF", *flags], cwd=target, check=True,
                   stdout=subprocess.DEVNULL)
    return build


def ninja(target, build, goals, jobs=2):
    """Builds; returns the finished process, whose output is kept."""
    return subprocess.run(
        ["ninja", f"-j{jobs}", "-C", build, *goals], capture_output=True,
        text=True, check=False,
        env=dict(os.environ, CCACHE_BASEDIR=target, CCACHE_NOHASHDIR="1"))
