/* pool/base/compiler.h - the few compiler facts the code relies on. */
#ifndef WP_BASE_COMPILER_H
#define WP_BASE_COMPILER_H

#define WP_CACHELINE 64

#define WP_MUST_CHECK __attribute__((warn_unused_result))
#define WP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define WP_NORETURN __attribute__((noreturn))
#define WP_LIKELY(x) __builtin_expect(!!(x), 1)
#define WP_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define WP_PREFETCH(p) __builtin_prefetch(p)

#define WP_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The object that embeds `member` at `ptr`; the caller knows the type. */
#define WP_CONTAINER_OF(ptr, type, member)                                     \
    ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
