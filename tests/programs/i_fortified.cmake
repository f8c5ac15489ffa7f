# The compiler replaces the calls by __*_chk only when it optimizes, and only
# where it knows the buffer's size and not the length.
target_compile_options(i_fortified PRIVATE
    -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
