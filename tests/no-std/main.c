/* Runs what lib.rs has, so that it is linked and nothing is missing. */
int isorb_no_std(void);

/* The compiler's own library of collections was made for programs that unwind, and names this. Nothing here unwinds. */
void rust_eh_personality(void) {}

int main(void) { return isorb_no_std(); }
