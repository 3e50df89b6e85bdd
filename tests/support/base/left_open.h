/* tests/support/base/left_open.h - what a test program may leave open. See left_open.c:
 * every one is checked at its end. */
#ifndef WP_TESTS_SUPPORT_BASE_LEFT_OPEN_H
#define WP_TESTS_SUPPORT_BASE_LEFT_OPEN_H

/* What is open now may stay so: a library keeps it until the process ends. */
void wp_test_keeps_open(void);

#endif
