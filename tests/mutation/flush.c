/* Counts are written when a process calls exit; some of ours end by _exit. Linked
 * into what is built for coverage (-Wl,--wrap=_exit). Weak, since some tests put
 * one of their own in that place. Counts anew after that: a child that has its
 * parent's memory (CLONE_VM) would else keep the parent from writing, since gcov
 * writes once. */
void __gcov_dump(void);
void __gcov_reset(void);
void __real__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status) __attribute__((noreturn, weak));

void
__wrap__exit(int status)
{
    __gcov_dump();
    __gcov_reset();
    __real__exit(status);
}
