#include "lab.h"
int hostile(void) { return 0; }
int lcores(void) { return 0; }
