//! Scales: from values to places on a chart, and the round values that are written next to an axis.

/// How values are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// Evenly, from 0.
    Linear,
    /// By their logarithm.
    Log,
    /// Shares of requests (0 to 1) by the logarithm of what is missing to 1: 90 %, 99 % and 99.9 % are equally far apart.
    Percentile,
}

/// A spread with the values and the places that it joins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    spread: Spread,
    values: (f64, f64),
    places: (f64, f64),
}

/// No share of requests is nearer to 1 on a chart.
const MISSING_MIN: f64 = 1e-7;
/// No value is smaller on a logarithmic axis.
const VALUE_MIN: f64 = 1e-9;

impl Scale {
    /// A scale that holds all finite ones of `values`, with a round end: `places` are where its first and its last
    /// value lie.
    pub(super) fn over(spread: Spread, values: impl Iterator<Item = f64>, places: (f64, f64)) -> Scale {
        let usable = |value: &f64| value.is_finite() && (spread != Spread::Log || *value > 0.0);
        let (low, high) = values
            .filter(usable)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let values = match spread {
            _ if low > high => (0.1, 1.0),
            Spread::Linear => (low.min(0.0), round_up(high.max(0.0))),
            Spread::Log => log_ends(low, high),
            Spread::Percentile => (low.clamp(0.1, 0.5), high.clamp(0.9, 1.0 - MISSING_MIN)),
        };
        Scale { spread, values, places }
    }

    /// The place of a value; what lies outside is put at the nearer end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let (first, last) = (self.transform(self.values.0), self.transform(self.values.1));
        let share = ((self.transform(value) - first) / (last - first)).clamp(0.0, 1.0);
        self.places.0 + share * (self.places.1 - self.places.0)
    }

    /// Round values between both ends, in their order: about five on a linear scale.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let (low, high) = self.values;
        match self.spread {
            Spread::Linear => {
                let step = round_step((high - low) / 5.0);
                multiples(step, low, high)
            }
            Spread::Log => log_ticks(low, high),
            Spread::Percentile => {
                let shares = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999];
                shares.into_iter().filter(|share| (low..=high).contains(share)).collect()
            }
        }
    }

    fn transform(&self, value: f64) -> f64 {
        match self.spread {
            Spread::Linear => value,
            Spread::Log => value.max(VALUE_MIN).log10(),
            Spread::Percentile => -(1.0 - value).max(MISSING_MIN).log10(),
        }
    }
}

/// The nearest 1, 2 or 5 with zeros that is not smaller.
fn round_step(least: f64) -> f64 {
    if least <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    // A hair of tolerance: 0.3 / 0.1 is a little more than 3.
    steps.into_iter().find(|step| *step >= least * 0.999_999).unwrap_or(10.0 * power)
}

fn round_up(high: f64) -> f64 {
    if high <= 0.0 {
        return 1.0;
    }
    let step = round_step(high / 5.0) / 2.0;
    (high / step - 1e-9).ceil() * step
}

fn multiples(step: f64, low: f64, high: f64) -> Vec<f64> {
    let first = (low / step - 1e-9).ceil();
    (0..50)
        .map(|index| (first + f64::from(index)) * step)
        .take_while(|tick| *tick <= high + step * 1e-9)
        .collect()
}

/// The ends of a logarithmic axis: the next 1, 2 or 5 outwards, and never less than a factor of 5 apart.
fn log_ends(low: f64, high: f64) -> (f64, f64) {
    let high = round_step(high);
    let below = round_step(low);
    let low = if below > low * 1.000_001 { round_step(below / 2.5) } else { below };
    if high / low < 5.0 { (round_step(low / 2.5), high.max(round_step(low * 2.0))) } else { (low, high) }
}

fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (high / low).log10();
    let factors: &[f64] = if decades < 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let mut power = 10_f64.powf(low.log10().floor());
    let mut ticks = Vec::new();
    while power <= high * 1.000_001 {
        ticks.extend(factors.iter().map(|factor| factor * power));
        power *= 10.0;
    }
    ticks.retain(|tick| (low * 0.999_999..=high * 1.000_001).contains(tick));
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(spread: Spread, values: &[f64]) -> Vec<String> {
        let scale = Scale::over(spread, values.iter().copied(), (0.0, 100.0));
        scale.ticks().iter().map(|tick| format!("{tick:.4}").trim_end_matches('0').to_owned()).collect()
    }

    #[test]
    fn linear_scales_begin_at_zero_and_end_round() {
        assert_eq!(ticks(Spread::Linear, &[93.0, 41.0]), ["0.", "20.", "40.", "60.", "80.", "100."]);
        assert_eq!(ticks(Spread::Linear, &[0.3]), ["0.", "0.1", "0.2", "0.3"]);
        assert_eq!(
            ticks(Spread::Linear, &[48_200.0]),
            ["0.", "10000.", "20000.", "30000.", "40000.", "50000."]
        );
        let scale = Scale::over(Spread::Linear, [93.0].into_iter(), (200.0, 0.0));
        assert_eq!((scale.at(0.0), scale.at(100.0), scale.at(50.0)), (200.0, 0.0, 100.0));
        assert_eq!(scale.at(1e9), 0.0, "what lies outside stays at the end");
    }

    #[test]
    fn logarithmic_scales_show_equal_factors_equally() {
        assert_eq!(ticks(Spread::Log, &[1.0, 1000.0]), ["1.", "10.", "100.", "1000."]);
        assert_eq!(ticks(Spread::Log, &[0.3, 14.0]), ["0.2", "0.5", "1.", "2.", "5.", "10.", "20."]);
        let scale = Scale::over(Spread::Log, [1.0, 100.0].into_iter(), (0.0, 100.0));
        assert!((scale.at(10.0) - 50.0).abs() < 1e-9);
        let one = ticks(Spread::Log, &[3.0]);
        assert!(one.len() >= 2, "one value still gets an axis: {one:?}");
    }

    #[test]
    fn nines_are_equally_far_apart() {
        let scale = Scale::over(Spread::Percentile, [0.5, 0.999].into_iter(), (0.0, 100.0));
        let (two, three) = (scale.at(0.99) - scale.at(0.9), scale.at(0.999) - scale.at(0.99));
        assert!((two - three).abs() < 1e-9, "{two} {three}");
        assert_eq!(scale.ticks(), [0.5, 0.9, 0.99, 0.999]);
    }

    #[test]
    fn no_values_give_no_odd_places() {
        for spread in [Spread::Linear, Spread::Log, Spread::Percentile] {
            let scale = Scale::over(spread, [f64::NAN].into_iter(), (0.0, 100.0));
            assert!(scale.at(0.5).is_finite());
            assert!(scale.ticks().len() < 20);
            let zero = Scale::over(spread, [0.0].into_iter(), (0.0, 100.0));
            assert!(zero.at(0.0).is_finite(), "{spread:?}");
        }
    }
}
