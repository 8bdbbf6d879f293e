/* Runs what lib.rs has, so that it is linked and nothing is missing. With the URL of a naming service
   it makes calls: standard output takes the requests, and standard input brings the replies. */
#include <string.h>
#include <unistd.h>

int isorb_no_std(void);
int isorb_no_std_calls(const unsigned char *url, size_t length);

/* The compiler's own library of collections was made for programs that unwind, and names this. Nothing here unwinds. */
void rust_eh_personality(void) {}

ssize_t isorb_pipe_read(unsigned char *octets, size_t most) { return read(0, octets, most); }
ssize_t isorb_pipe_write(const unsigned char *octets, size_t count) { return write(1, octets, count); }

int main(int count, char **arguments) {
  if (count > 1) return isorb_no_std_calls((const unsigned char *)arguments[1], strlen(arguments[1]));
  return isorb_no_std();
}
