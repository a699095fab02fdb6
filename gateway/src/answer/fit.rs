//! How much of each of several things is kept when all together are too much.

/// Something that wants room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish {
    /// The room it takes whole.
    pub(super) cost: usize,
    /// It can't be cut, only be left out.
    pub(super) rigid: bool,
    /// It comes before all others.
    pub(super) first: bool,
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    Whole,
    /// As much as has room here.
    Cut(usize),
    Dropped,
}

/// Less than this of a text isn't worth keeping while others are left out for it.
const SMALLEST: usize = 400;
/// Room for a line that stands where others were left out.
pub(super) const GAP: usize = 80;

/// Shares out `limit`: small things stay whole, large ones are cut to the same size; where there are
/// too many, those in the middle are left out.
pub(super) fn share(wishes: &[Wish], limit: usize) -> Vec<Share> {
    let rigid: usize = wishes.iter().filter(|wish| wish.rigid).map(|wish| wish.cost).sum();
    let room = limit.saturating_sub(rigid);
    let level = level(wishes.iter().filter(|wish| !wish.rigid).map(|wish| wish.cost), room);
    if rigid <= limit && level >= SMALLEST {
        return wishes.iter().map(|wish| cut_to(wish, level)).collect();
    }
    share_among_few(wishes, limit)
}

fn cut_to(wish: &Wish, level: usize) -> Share {
    if wish.rigid || wish.cost <= level { Share::Whole } else { Share::Cut(level) }
}

fn share_among_few(wishes: &[Wish], limit: usize) -> Vec<Share> {
    let mut room = limit.saturating_sub(GAP);
    let mut kept = vec![false; wishes.len()];
    for at in by_importance(wishes) {
        let wish = &wishes[at];
        let gap = if wish.first { GAP } else { 0 };
        let least = gap + if wish.rigid { wish.cost } else { wish.cost.min(SMALLEST) };
        if least <= room {
            room -= least;
            kept[at] = true;
        }
    }
    let texts = || wishes.iter().zip(&kept).filter(|(wish, kept)| **kept && !wish.rigid);
    let spare: usize = texts().map(|(wish, _)| wish.cost.min(SMALLEST)).sum::<usize>() + room;
    let level = level(texts().map(|(wish, _)| wish.cost), spare);
    let decide = |(wish, kept): (&Wish, &bool)| if *kept { cut_to(wish, level) } else { Share::Dropped };
    wishes.iter().zip(&kept).map(decide).collect()
}

/// Those that come first (the last of them before the others), then from both ends inwards.
fn by_importance(wishes: &[Wish]) -> impl Iterator<Item = usize> {
    let first = (0..wishes.len()).rev().filter(|at| wishes[*at].first);
    first.chain(inwards(wishes.len()).filter(|at| !wishes[*at].first))
}

/// `0`, the last, `1`, the one before the last, and so on.
fn inwards(length: usize) -> impl Iterator<Item = usize> {
    (0..length).map(move |step| if step % 2 == 0 { step / 2 } else { length - 1 - step / 2 })
}

/// How many of a list's head and of its tail have room, when what is between them is left out.
pub(super) fn ends(costs: &[usize], limit: usize) -> (usize, usize) {
    let (mut head, mut tail, mut room) = (0, 0, limit);
    for at in inwards(costs.len()) {
        let Some(left) = room.checked_sub(costs[at]) else { break };
        room = left;
        if at == head { head += 1 } else { tail += 1 }
    }
    (head, tail)
}

/// The size to which all larger ones have to be cut for the sum to be `room`.
pub(super) fn level(costs: impl Iterator<Item = usize>, room: usize) -> usize {
    let mut costs: Vec<_> = costs.collect();
    costs.sort_unstable();
    let mut room = room;
    for (at, cost) in costs.iter().enumerate() {
        let share = room / (costs.len() - at);
        if *cost > share {
            return share;
        }
        room -= cost;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(cost: usize) -> Wish {
        Wish { cost, rigid: false, first: false }
    }

    #[test]
    fn small_ones_stay_whole_and_large_ones_share() {
        let shares = share(&[text(10), text(9_000), text(100), text(8_000)], 5_110);
        assert_eq!(shares, [Share::Whole, Share::Cut(2_500), Share::Whole, Share::Cut(2_500)]);
    }

    #[test]
    fn too_many_lose_their_middle_but_not_what_comes_first() {
        let mut wishes = vec![text(300); 100];
        wishes[50].first = true;
        let shares = share(&wishes, 3_000);
        let kept: Vec<_> = (0..100).filter(|at| shares[*at] != Share::Dropped).collect();
        assert_eq!(kept, [0, 1, 2, 3, 50, 96, 97, 98, 99]);
    }

    #[test]
    fn a_list_keeps_both_ends() {
        assert_eq!(ends(&[10; 20], 55), (3, 2));
        assert_eq!(ends(&[10; 3], 55), (2, 1));
        assert_eq!(ends(&[100, 10], 55), (0, 0));
    }

    proptest! {
        #[test]
        fn shares_keep_the_limit(
            wishes in prop::collection::vec((0_usize..3_000, any::<bool>(), any::<bool>()), 0..60),
            limit in 0_usize..20_000,
        ) {
            let wishes: Vec<_> =
                wishes.into_iter().map(|(cost, rigid, first)| Wish { cost, rigid, first }).collect();
            let shares = share(&wishes, limit);
            let spent: usize = wishes.iter().zip(&shares).map(|(wish, share)| match share {
                Share::Whole => wish.cost,
                Share::Cut(room) => *room,
                Share::Dropped => 0,
            }).sum();
            prop_assert!(spent <= limit);
        }
    }
}
