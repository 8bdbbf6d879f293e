/* Steps the clock of the day of a process: LD_PRELOAD with ISORB_TEST_CLOCK as a file of eight octets,
 * the seconds by which that clock is off. The other clocks stay. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t none;
static volatile int64_t *offset = &none;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("ISORB_TEST_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) _exit(97);
    void *at = mmap(0, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) _exit(98);
    offset = at;
    close(file);
}

int clock_gettime(clockid_t id, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, id, now);
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
