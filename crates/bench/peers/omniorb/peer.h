// What the omniORB peers share.
#pragma once
#include <csignal>
#include <sys/prctl.h>

// The harness starts the peer through a program that has the kernel kill it with its parent; that
// is asked for again here because a file capability on this program would have cleared it.
inline void die_with_parent() { prctl(PR_SET_PDEATHSIG, SIGKILL); }
