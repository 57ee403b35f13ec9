/* Which vector instructions the kernels use: chosen at run time, the widest that the processor has. */
#ifndef BATON_INSTRUCTION_SET_H
#define BATON_INSTRUCTION_SET_H

enum instruction_set { SET_PORTABLE = 0, SET_AVX2 = 1, SET_AVX512 = 2 };

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_X86_SETS 1
#else
#define HAS_X86_SETS 0
#endif

/* Calls the build of a function for that set; each set's build carries its name as a suffix. */
#if HAS_X86_SETS
#define FOR_SET(set, name, ...)                                                                                        \
    ((set) == SET_AVX512 ? name##_avx512(__VA_ARGS__)                                                                  \
                         : ((set) == SET_AVX2 ? name##_avx2(__VA_ARGS__) : name##_portable(__VA_ARGS__)))
#else
#define FOR_SET(set, name, ...) name##_portable(__VA_ARGS__)
#endif

static inline int is_set_usable(enum instruction_set set)
{
#if HAS_X86_SETS
    if (set == SET_AVX512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma");
    if (set == SET_AVX2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return set == SET_PORTABLE;
}

static inline enum instruction_set best_set(void)
{
    if (is_set_usable(SET_AVX512))
        return SET_AVX512;
    return is_set_usable(SET_AVX2) ? SET_AVX2 : SET_PORTABLE;
}

#endif
