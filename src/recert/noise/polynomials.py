"""Constants that the three implementations of the stream share.

Every implementation performs the same float32 operations in the same order, each rounded to nearest, none
fused, so that all give the same bits. Nothing here calls a platform's log, sin or cos: those differ.

The polynomials are Chebyshev fits: log(1 + f) = f - f^2/2 + f^3 * LOG(f) on [sqrt(1/2) - 1, sqrt(2) - 1] (error 3e-8
in LOG), sin(a) = a + a^3 * SIN(a^2) and cos(a) = 1 - a^2/2 + a^4 * COS(a^2) on |a| <= pi/4. Highest power first.
"""

# Philox4x32-10 (Salmon et al., 2011): multipliers and key increments
MULTIPLIER_0 = 0xD2511F53
MULTIPLIER_1 = 0xCD9E8D57
WEYL_0 = 0x9E3779B9
WEYL_1 = 0xBB67AE85
ROUNDS = 10

LOG = (
    0.06971611827611923,
    -0.11479733884334564,
    0.11685419827699661,
    -0.12425687164068222,
    0.14249058067798615,
    -0.1666780263185501,
    0.20000715553760529,
    -0.2499999701976776,
    0.3333333134651184,
)
SIN = (-0.00019587890710681677, 0.008332747966051102, -0.166666641831398)
COS = (2.454794230288826e-05, -0.001388830249197781, 0.0416666641831398)

LN2_HIGH = 0.693359375  # few bits, so that exponent * LN2_HIGH is exact
LN2_LOW = -0.00021219444170128554
SQRT_HALF_BITS = 0x3F3504F3  # float32 bits of sqrt(1/2)
TWO_TO_MINUS_32 = 2.0**-32
TWO_TO_MINUS_31 = 2.0**-31
TWO_TO_MINUS_22 = 2.0**-22
TWO_TO_MINUS_23 = 2.0**-23
TWO_TO_23 = 2.0**23
RADIANS_PER_STEP = 1.462918119976564e-09  # 2 pi / 2^32
ROUNDER = (
    1.5 * 2.0**23
)  # added to a float32 number below 2^22 and subtracted again, it rounds to the nearest whole number
