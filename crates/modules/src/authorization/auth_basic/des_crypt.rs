//! The oldest passwords of Unix: zeros, encrypted 25 times by DES with the password as the key, and with
//! the salt changing DES a little (FIPS 46-3).
//!
//! A bit is a byte here, which is slow and short; 25 rounds take no time worth mentioning.

use super::md5_crypt::DIGITS;
use std::array::from_fn;

/// Half of a block.
type Half = [u8; 32];

/// The bits of the key that each of the 16 rounds takes.
type Keys = [[u8; 48]; 16];

/// How many bits of the key move on before each round.
const SHIFTS: [usize; 16] = [1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1];

/// Which bits of the key are used, counted from one.
#[rustfmt::skip]
const KEY_BITS: [usize; 56] = [
    57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18, 10, 2, 59, 51, 43, 35, 27, 19, 11, 3, 60, 52, 44, 36,
    63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37, 29, 21, 13, 5, 28, 20, 12, 4,
];

/// Which of them a round takes, counted from one.
#[rustfmt::skip]
const ROUND_BITS: [usize; 48] = [
    14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10, 23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2,
    41, 52, 31, 37, 47, 55, 30, 40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
];

/// The order of the bits after the boxes, counted from one.
#[rustfmt::skip]
const ORDER: [usize; 32] = [
    16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10,
    2, 8, 24, 14, 32, 27, 3, 9, 19, 13, 30, 6, 22, 11, 4, 25,
];

/// The boxes: four rows of sixteen digits each.
#[rustfmt::skip]
const BOXES: [[u64; 4]; 8] = [
    [0xe4d1_2fb8_3a6c_5907, 0x0f74_e2d1_a6cb_9538, 0x41e8_d62b_fc97_3a50, 0xfc82_4917_5b3e_a06d],
    [0xf18e_6b34_972d_c05a, 0x3d47_f28e_c01a_69b5, 0x0e7b_a4d1_58c6_932f, 0xd8a1_3f42_b67c_05e9],
    [0xa09e_63f5_1dc7_b428, 0xd709_346a_285e_cbf1, 0xd649_8f30_b12c_5ae7, 0x1ad0_6987_4fe3_b52c],
    [0x7de3_069a_1285_bc4f, 0xd8b5_6f03_472c_1ae9, 0xa690_cb7d_f13e_5284, 0x3f06_a1d8_945b_c72e],
    [0x2c41_7ab6_853f_d0e9, 0xeb2c_47d1_50fa_3986, 0x421b_ad78_f9c5_630e, 0xb8c7_1e2d_6f09_a453],
    [0xc1af_9268_0d34_e75b, 0xaf42_7c95_61de_0b38, 0x9ef5_28c3_704a_1db6, 0x432c_95fa_be17_608d],
    [0x4b2e_f08d_3c97_5a61, 0xd0b7_491a_e35c_2f86, 0x14bd_c37e_af68_0592, 0x6bd8_14a7_950f_e23c],
    [0xd284_6fb1_a93e_50c7, 0x1fd8_a374_c56b_0e92, 0x7b41_9ce2_06ad_f358, 0x21e7_4a8d_fc90_356b],
];

/// The 13 characters of a password, with the salt that `stored` starts with. None if that is no salt.
pub(super) fn des_crypt(password: &[u8], stored: &[u8]) -> Option<Vec<u8>> {
    const LENGTH: usize = 13;
    if stored.len() != LENGTH || !stored.iter().all(|byte| DIGITS.contains(byte)) {
        return None;
    }
    let salt = &stored[..2];
    let (keys, expansion) = (keys(password), expansion(salt));
    // The first and the last permutation of DES undo each other between two encryptions, and zeros have no order.
    let (mut left, mut right): (Half, Half) = ([0; 32], [0; 32]);
    for _ in 0..25 {
        for key in &keys {
            let mixed = mix(&right, key, &expansion);
            (left, right) = (right, from_fn(|at| left[at] ^ mixed[at]));
        }
        (left, right) = (right, left);
    }
    let block = last_permutation(&left, &right);
    let digit = |bits: &[u8]| {
        let value = (0..6).fold(0, |value, at| value << 1 | usize::from(bits.get(at).copied().unwrap_or(0)));
        DIGITS[value]
    };
    Some(salt.iter().copied().chain(block.chunks(6).map(digit)).collect())
}

fn keys(password: &[u8]) -> Keys {
    let bit = |at: usize| {
        let byte = password.get(at / 8).copied().unwrap_or(0);
        // Seven bits of each character; the eighth of the key would be its parity.
        byte << 1 >> (7 - at % 8) & 1
    };
    let mut used: [u8; 56] = from_fn(|at| bit(KEY_BITS[at] - 1));
    SHIFTS.map(|shift| {
        used[..28].rotate_left(shift);
        used[28..].rotate_left(shift);
        from_fn(|at| used[ROUND_BITS[at] - 1])
    })
}

/// Which bit of a half goes where in a round; the salt swaps some of them.
fn expansion(salt: &[u8]) -> [usize; 48] {
    let mut bits: [usize; 48] = from_fn(|at| (at / 6 * 4 + at % 6 + 31) % 32);
    for (at, character) in salt.iter().enumerate() {
        let value = DIGITS.iter().position(|digit| digit == character).unwrap_or(0);
        for bit in (0..6).filter(|bit| value >> bit & 1 == 1) {
            bits.swap(6 * at + bit, 6 * at + bit + 24);
        }
    }
    bits
}

fn mix(half: &Half, key: &[u8; 48], expansion: &[usize; 48]) -> Half {
    let input: [u8; 48] = from_fn(|at| half[expansion[at]] ^ key[at]);
    let mut output = [0; 32];
    for (at, bits) in input.chunks(6).enumerate() {
        let row = usize::from(bits[0] << 1 | bits[5]);
        let column = bits[1..5].iter().fold(0, |column, bit| column << 1 | u32::from(*bit));
        let digit = (BOXES[at][row] >> (60 - 4 * column)).to_le_bytes()[0] & 15;
        for bit in 0..4 {
            output[4 * at + bit] = digit >> (3 - bit) & 1;
        }
    }
    from_fn(|at| output[ORDER[at] - 1])
}

fn last_permutation(left: &Half, right: &Half) -> [u8; 64] {
    let mut block = [0; 64];
    for at in 0..64 {
        let (row, column) = (at / 8, at % 8);
        let start = if row < 4 { 57 + 2 * row } else { 56 + 2 * (row - 4) };
        block[start - 8 * column] = if at < 32 { left[at] } else { right[at - 32] };
    }
    block
}

#[cfg(test)]
mod tests {
    use super::des_crypt;

    #[test]
    fn as_the_c_library_computes_it() {
        for (password, stored) in [
            ("secret", "abNANd1rDfiNc"),
            ("password", "sa3tHJ3/KuYvI"),
            ("", "./Una9Fi.seRo"),
            ("longer than eight", "zZb64kacvY9KA"),
            ("longer t", "zZb64kacvY9KA"),
            ("p\u{e4}ss", "9.owlfA8lbdNw"),
        ] {
            assert_eq!(
                des_crypt(password.as_bytes(), stored.as_bytes()).unwrap(),
                stored.as_bytes(),
                "{password}"
            );
        }
        for wrong in ["", "ab", "abNANd1rDfiN", "abNANd1rDfiNc.", "a:NANd1rDfiNc"] {
            assert_eq!(des_crypt(b"secret", wrong.as_bytes()), None);
        }
    }
}
