/* Loaded by i_instrumented with dlopen. */
int lib_work(int n);

__attribute__((noinline)) static int lib_step(int n)
{
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}

__attribute__((visibility("default"))) int lib_work(int n)
{
    for (int i = 0; i < 10; i++)
        n = lib_step(n);
    return n;
}
