/* Counts are written when a process calls exit; some of ours end by _exit. Linked
 * into what is built for coverage (-Wl,--wrap=_exit). Weak, since some tests put
 * one of their own in that place. */
void __gcov_dump(void);
void __real__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status) __attribute__((noreturn, weak));

void
__wrap__exit(int status)
{
    __gcov_dump();
    __real__exit(status);
}
