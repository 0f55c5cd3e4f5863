//! Which series of measurements are taken in turn.

use crate::model::experiment::{Condition, Experiment, Kind};

/// What one series measures of an experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) load: String,
    pub(super) kind: Kind,
    pub(super) cores: u32,
}

/// The series of an experiment in groups: those that some finding compares with each other are together, since what
/// drifts would else meet one and not the other. The groups, and the series in them, keep their order.
pub(super) fn groups(experiment: &str, places: &[Place], known: &[Experiment]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = (0..places.len()).map(|index| vec![index]).collect();
    for other in known {
        for condition in other.findings.iter().flat_map(|finding| &finding.holds_when) {
            let compared = |index: &usize| compares(condition, &other.id, experiment, &places[*index]);
            let (mut of_condition, rest): (Vec<_>, Vec<_>) =
                groups.into_iter().partition(|group| group.iter().any(compared));
            groups = rest;
            if !of_condition.is_empty() {
                let mut joined = of_condition.remove(0);
                joined.extend(of_condition.into_iter().flatten());
                joined.sort_unstable();
                groups.push(joined);
            }
            groups.sort_unstable();
        }
    }
    groups
}

/// Whether a condition holds this series against others. Within one series the numbers of clients follow each other
/// in every turn already; what is not requests is measured by itself.
fn compares(condition: &Condition, of: &str, experiment: &str, place: &Place) -> bool {
    let cores_of_it = match condition {
        Condition::AgainstLoad { .. } => true,
        Condition::Change { from_cores: Some(from), to_cores: Some(to), .. } => {
            [from, to].contains(&&place.cores)
        }
        _ => false,
    };
    let named = |name: &&str| name.split_once('/').unwrap_or((of, name)) == (experiment, &place.load);
    let is_of_requests = matches!(place.kind, Kind::Load | Kind::Reload);
    cores_of_it && is_of_requests && condition.loads().iter().any(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(id: &str, conditions: &str) -> Experiment {
        let text = format!(
            "id = '{id}'\ntitle = 't'\nquestion = 'q'\ncontenders = []\n\
             [[findings]]\nid = 'F1'\nclaim = 'c'\nholds_when = [{conditions}]\n"
        );
        Experiment::parse(&text).unwrap()
    }

    fn places(names: &[(&str, u32)]) -> Vec<Place> {
        let place =
            |(load, cores): &(&str, u32)| Place { load: (*load).into(), kind: Kind::Load, cores: *cores };
        names.iter().map(place).collect()
    }

    const AGAINST: &str = "{ is = 'against_load', figure = 'requests_per_s', of = 'nginx'";

    #[test]
    fn loads_that_are_compared_are_together() {
        let own = experiment("e", &format!("{AGAINST}, load = 'd', against = 'a' }}"));
        let other = experiment("o", &format!("{AGAINST}, load = 'e/c', against = 'e/d' }}"));
        let places = places(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
        assert_eq!(groups("e", &places, &[]), [[0], [1], [2], [3]]);
        assert_eq!(groups("e", &places, std::slice::from_ref(&own)), [vec![0, 3], vec![1], vec![2]]);
        assert_eq!(groups("e", &places, &[own.clone(), other.clone()]), [vec![0, 2, 3], vec![1]]);
        assert_eq!(groups("o", &places, &[own, other]), [[0], [1], [2], [3]], "other loads of these names");
    }

    #[test]
    fn cores_that_are_compared_are_together() {
        let change = "{ is = 'change', figure = 'requests_per_s', load = 'a', of = 'nginx', from_cores = 1, to_cores = 2 }";
        let clients =
            "{ is = 'change', figure = 'requests_per_s', load = 'b', of = 'nginx', from_clients = 1 }";
        let own = experiment("e", &format!("{change}, {clients}"));
        let places = places(&[("a", 1), ("a", 2), ("a", 4), ("b", 1), ("b", 2)]);
        assert_eq!(groups("e", &places, &[own]), [vec![0, 1], vec![2], vec![3], vec![4]]);
    }

    #[test]
    fn idle_connections_are_measured_by_themselves() {
        let own = experiment("e", &format!("{AGAINST}, load = 'b', against = 'a' }}"));
        let mut places = places(&[("a", 1), ("b", 1)]);
        places[1].kind = Kind::Idle;
        assert_eq!(groups("e", &places, &[own]), [[0], [1]]);
    }

    #[test]
    fn what_the_publications_compare_is_measured_in_turn() {
        let all = Experiment::built_in().unwrap();
        let together = |id: &str| -> Vec<usize> {
            let loads = all.iter().filter(|one| one.id == id).flat_map(|one| &one.loads);
            let places: Vec<Place> = loads
                .map(|load| Place { load: load.id.clone(), kind: load.kind, cores: load.cores[0] })
                .collect();
            groups(id, &places, &all).iter().map(Vec::len).collect()
        };
        assert_eq!(together("tuning"), [7]);
        assert_eq!(together("logging-cost"), [2]);
        assert!(together("stress-debian").contains(&3));
    }
}
