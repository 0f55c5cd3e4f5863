//! Which processors run which thread.

use conf::{Diagnostic, Word};
use contract::{Args, Loading};

/// The most processors that a mask can name: those of the kernel's `cpu_set_t`, see CPU_SET(3).
pub const PROCESSORS_MAX: usize = 1024;

/// `worker_cpu_affinity`: the processors of each thread, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// One processor a thread, in turn, of these or, where none are named, of all that there are.
    Auto(Option<Vec<usize>>),
    /// The first thread's, the second one's and so on; threads beyond have the last one's.
    Masks(Vec<Vec<usize>>),
}

impl Affinity {
    /// The processors of the thread with this index, where the process may use `allowed`; none leaves the choice to
    /// the kernel.
    pub fn of_thread(&self, index: usize, allowed: &[usize]) -> Vec<usize> {
        match self {
            Affinity::Auto(mask) => {
                let from = mask.as_deref().unwrap_or(allowed);
                let turn = index.checked_rem(from.len());
                turn.and_then(|turn| from.get(turn)).copied().into_iter().collect()
            }
            Affinity::Masks(masks) => masks.get(index).or(masks.last()).cloned().unwrap_or_default(),
        }
    }

    /// What to warn of where this many threads serve.
    pub(super) fn warning(&self, threads: usize) -> Option<String> {
        let Affinity::Masks(masks) = self else { return None };
        let fits = masks.len() == 1 || masks.len() == threads;
        (!fits).then(|| {
            "the number of \"worker_processes\" is not equal to the number of \"worker_cpu_affinity\" masks, \
             using last mask for remaining worker processes"
                .to_owned()
        })
    }
}

pub(super) fn parse(args: &Args<'_>, _: &mut Loading) -> Result<Affinity, Diagnostic> {
    match args.words() {
        [auto, rest @ ..] if auto.is("auto") => match rest {
            [] => Ok(Affinity::Auto(None)),
            [word] => Ok(Affinity::Auto(Some(mask(args, word)?))),
            _ => {
                let message = "invalid number of arguments in \"worker_cpu_affinity\" directive";
                Err(Diagnostic::emerg(message).at(args.node.span))
            }
        },
        words => {
            let masks: Result<_, _> = words.iter().map(|word| mask(args, word)).collect();
            Ok(Affinity::Masks(masks?))
        }
    }
}

/// The digits of a mask are read from its end, where the first processor's stands.
fn mask(args: &Args<'_>, word: &Word) -> Result<Vec<usize>, Diagnostic> {
    let complain = |message: String| Diagnostic::emerg(message).at(args.node.span).under(word.span);
    let digits: Vec<u8> = word.text.iter().rev().filter(|byte| **byte != b' ').copied().collect();
    if digits.len() > PROCESSORS_MAX {
        let message = format!("\"worker_cpu_affinity\" supports up to {PROCESSORS_MAX} CPUs only");
        return Err(complain(message));
    }
    if let Some(&stray) = digits.iter().find(|digit| !matches!(digit, b'0' | b'1')) {
        let message = format!("invalid character \"{}\" in \"worker_cpu_affinity\"", char::from(stray));
        return Err(complain(message));
    }
    Ok(digits.iter().enumerate().filter(|(_, digit)| **digit == b'1').map(|(number, _)| number).collect())
}

#[cfg(test)]
mod tests {
    use super::Affinity;
    use crate::connection::process::WORKER_CPU_AFFINITY;
    use crate::testing::main_level;

    fn read(text: &str) -> Result<Affinity, String> {
        let (config, _) = main_level(text)?;
        Ok(config.view(contract::Config::MAIN).get(&WORKER_CPU_AFFINITY).cloned().unwrap())
    }

    #[test]
    fn masks_are_read_from_their_end() {
        let masks = read("worker_cpu_affinity 0001 '10 10' 0;").unwrap();
        assert_eq!(masks, Affinity::Masks(vec![vec![0], vec![1, 3], vec![]]));
        let of = |index| masks.of_thread(index, &[0, 1, 2, 3]);
        assert_eq!([of(0), of(1), of(2), of(7)], [vec![0], vec![1, 3], vec![], vec![]]);
        assert!(masks.warning(3).is_none() && masks.warning(2).is_some());
        assert!(read("worker_cpu_affinity 11;").unwrap().warning(8).is_none());
    }

    #[test]
    fn processors_are_taken_in_turn() {
        let all = read("worker_cpu_affinity auto;").unwrap();
        let of = |affinity: &Affinity, allowed: &[usize]| -> Vec<Vec<usize>> {
            (0..3).map(|index| affinity.of_thread(index, allowed)).collect()
        };
        assert_eq!(of(&all, &[2, 5]), [[2], [5], [2]]);
        let some = read("worker_cpu_affinity auto 1010;").unwrap();
        assert_eq!(of(&some, &[0, 1]), [[1], [3], [1]]);
        let none = read("worker_cpu_affinity auto 0000;").unwrap();
        assert_eq!(of(&none, &[0, 1]), [Vec::<usize>::new(), vec![], vec![]]);
    }

    #[test]
    fn what_is_no_mask() {
        let error = |text| read(text).unwrap_err();
        assert_eq!(error("worker_cpu_affinity 0102;"), "invalid character \"2\" in \"worker_cpu_affinity\"");
        let many = format!("worker_cpu_affinity {};", "1".repeat(1025));
        assert_eq!(error(&many), "\"worker_cpu_affinity\" supports up to 1024 CPUs only");
        assert!(error("worker_cpu_affinity auto 1 1;").starts_with("invalid number of arguments"));
    }
}
