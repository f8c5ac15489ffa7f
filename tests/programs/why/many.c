/* Procedures of equal cost: none of them is worth a word. */
#include "work.h"

#define PART(name)                                                             \
    static void name(long units)                                               \
    {                                                                          \
        WORK(units);                                                           \
    }
PART(part_00)
PART(part_01)
PART(part_02)
PART(part_03)
PART(part_04)
PART(part_05)
PART(part_06)
PART(part_07)
PART(part_08)
PART(part_09)
PART(part_10)
PART(part_11)
PART(part_12)
PART(part_13)
PART(part_14)
PART(part_15)
PART(part_16)
PART(part_17)
PART(part_18)
PART(part_19)
PART(part_20)
PART(part_21)
PART(part_22)
PART(part_23)
PART(part_24)
PART(part_25)
PART(part_26)
PART(part_27)
PART(part_28)
PART(part_29)
PART(part_30)
PART(part_31)
PART(part_32)
PART(part_33)
PART(part_34)
PART(part_35)
PART(part_36)
PART(part_37)
PART(part_38)
PART(part_39)
PART(part_40)
PART(part_41)
PART(part_42)
PART(part_43)
PART(part_44)
PART(part_45)
PART(part_46)
PART(part_47)
PART(part_48)
PART(part_49)
PART(part_50)
PART(part_51)
PART(part_52)
PART(part_53)
PART(part_54)
PART(part_55)
PART(part_56)
PART(part_57)
PART(part_58)
PART(part_59)

typedef void part(long units);
static part *const parts[] = {
    part_00, part_01, part_02, part_03, part_04, part_05, part_06, part_07,
    part_08, part_09, part_10, part_11, part_12, part_13, part_14, part_15,
    part_16, part_17, part_18, part_19, part_20, part_21, part_22, part_23,
    part_24, part_25, part_26, part_27, part_28, part_29, part_30, part_31,
    part_32, part_33, part_34, part_35, part_36, part_37, part_38, part_39,
    part_40, part_41, part_42, part_43, part_44, part_45, part_46, part_47,
    part_48, part_49, part_50, part_51, part_52, part_53, part_54, part_55,
    part_56, part_57, part_58, part_59,
};

static void work_over(long units, int count)
{
    /* Ten times through, so that none has a phase of its own. */
    for (int turn = 0; turn < 10; turn++) {
        for (int i = 0; i < count; i++)
            parts[i](units / 10 / count);
    }
}

void work_spread(long units)
{
    work_over(units, (int)(sizeof(parts) / sizeof(*parts)));
}

void work_several(long units)
{
    work_over(units, 8);
}
