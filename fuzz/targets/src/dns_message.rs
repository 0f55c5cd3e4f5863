//! A message of a name server: whatever it holds, it is an answer to the question, or does not count.

use dns::{Answer, Kind, Name, Query};

/// Holds the reader to it.
pub fn run(input: &[u8]) {
    for (name, kinds) in [("a.example", &[Kind::A, Kind::Aaaa][..]), ("_a._tcp.example", &[Kind::Srv])] {
        let Some(name) = Name::new(name) else { panic!("a name") };
        for by_tcp in [false, true] {
            judge(&mut Query::new(name.clone(), kinds, || 7), input, by_tcp);
        }
    }
}

fn judge(query: &mut Query, input: &[u8], by_tcp: bool) {
    let open = |query: &Query| query.messages(false).count() + query.messages(true).count();
    let before = open(query);
    match query.receive(input, by_tcp).map(|question| question.map(<[u8]>::to_vec)) {
        Err(_) => assert_eq!(open(query), before, "what does not count changes nothing"),
        Ok(Some(question)) => {
            assert!(!by_tcp);
            assert_eq!(query.messages(true).collect::<Vec<_>>(), [question]);
        }
        Ok(None) => {
            assert_eq!(open(query), before - 1);
            assert_eq!(input[..2], [0, 7], "the id of the question");
            assert!(query.receive(input, by_tcp).is_err(), "one answer a question");
        }
    }
    if let Some(Ok(found)) = query.outcome() {
        assert!(i32::try_from(found.ttl_s).is_ok());
        match found.answer {
            Answer::Addresses(all) => assert!(!all.is_empty()),
            Answer::Services(all) => {
                assert!(!all.is_empty());
                all.iter().for_each(|service| promise(&service.target));
            }
            Answer::Alias(name) => promise(&name),
        }
    }
}

/// A name that was read can be asked about.
fn promise(name: &Name) {
    assert_eq!(Name::new(name.as_str()).as_ref(), Some(name));
    assert!(name.as_str().len() <= 255);
    let query = Query::new(name.clone(), &[Kind::A], || 7);
    assert!(query.messages(false).all(|message| message.len() <= 12 + 257 + 4));
}
