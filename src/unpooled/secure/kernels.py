"""The compiled loops of products (`unpooled.compiled`); each gives what the function that calls it gives with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Ints, Ints32, Ring
from unpooled.compiled import compiled

Places = NDArray[np.uint32]


@compiled
def product(x: Ring, y: Ring) -> Ring:
    """XᵀY mod 2^64, as columns of Y × columns of X; four rows at a time: sums are read and written less often."""
    rows, width, words = x.shape[0], x.shape[1], y.shape[1]
    sums = np.zeros((words, width), np.uint64)
    even = rows - rows % 4
    for row in range(0, even, 4):
        for word in range(words):
            one, two, three, four = y[row, word], y[row + 1, word], y[row + 2, word], y[row + 3, word]
            for column in range(width):
                sums[word, column] += (
                    x[row, column] * one
                    + x[row + 1, column] * two
                    + x[row + 2, column] * three
                    + x[row + 3, column] * four
                )
    for row in range(even, rows):
        for word in range(words):
            for column in range(width):
                sums[word, column] += x[row, column] * y[row, word]
    return sums


@compiled
def bin_sums(bins: NDArray[Any], firsts: Ints, total: int, words: Ring) -> Ring:
    """The sum of the rows of each bin; `firsts` are the first bins of the columns."""
    sums = np.zeros((total, words.shape[1]), np.uint64)
    for row in range(bins.shape[0]):
        for column in range(bins.shape[1]):
            at = firsts[column] + np.int64(bins[row, column])
            for word in range(words.shape[1]):
                sums[at, word] += words[row, word]
    return sums


@compiled
def orders_of(numbers: Ring, block_ends: Ints) -> Places:
    """The order of the numbers in each block of each row: by counting their first bits, then by moving each to its
    place among the few that have these in common."""
    columns, one = numbers.shape[0], np.uint64(1)
    orders, moved = np.empty(numbers.shape, np.uint32), np.empty(numbers.shape[1], np.uint64)
    ends = np.empty((1 << 17) + 1, np.uint32)
    for column in range(columns):
        begin = 0
        for end in block_ends:
            bits = 1
            while bits < 17 and (1 << bits) < 2 * (end - begin):
                bits += 1
            shift = np.uint64(64 - bits)
            ends[: (1 << bits) + 1] = 0
            for row in range(begin, end):
                ends[(numbers[column, row] >> shift) + one] += one  # an index without a sign needs no check for it
            ends[0] = begin
            for place in range(1 << bits):
                ends[place + 1] += ends[place]
            for row in range(begin, end):
                number = numbers[column, row]
                slot = number >> shift
                at = ends[slot]
                orders[column, at], moved[at] = row, number
                ends[slot] = at + one
            for place in range(begin + 1, end):
                number = moved[place]
                if moved[place - 1] > number:
                    row, back = orders[column, place], place
                    while back > begin and moved[back - 1] > number:
                        orders[column, back], moved[back] = orders[column, back - 1], moved[back - 1]
                        back -= 1
                    orders[column, back], moved[back] = row, number
            begin = end
    return orders


@compiled
def moved_less(mask: Ring, orders: Places, numbers: Ring, into: Ring) -> None:
    """For each column the mask in its order, less the numbers, into columns × rows × words."""
    for column in range(orders.shape[0]):
        for row in range(orders.shape[1]):
            for word in range(mask.shape[1]):
                into[column, row, word] = mask[orders[column, row], word] - numbers[column, row, word]


@compiled
def places_in(shuffled: Places, orders: Places, outside: Ints, block_ends: Ints, inside: Ints, into: Any) -> None:
    """Where the rows of each column's order, and then those outside, stand in its shuffled order, block by block."""
    columns, rows = shuffled.shape
    stands = np.empty(rows, np.uint32)
    for column in range(columns):
        begin, at, left = 0, 0, 0
        for block in range(len(block_ends)):
            end, most = block_ends[block], begin + inside[block]
            for place in range(begin, end):
                stands[shuffled[column, place]] = place - begin
            for place in range(begin, most):
                into[column, place] = stands[orders[column, at]]
                at += 1
            for place in range(most, end):
                into[column, place] = stands[outside[left]]
                left += 1
            begin = end


@compiled
def into_planes(numbers: Ring, four: Any, two: Any, one: Any, above_two: Any, above_one: Any) -> None:
    """The lower bytes of numbers, by planes of 4, 2 and 1 bytes, of which some are empty."""
    fours, twos, ones = len(four) > 0, len(two) > 0, len(one) > 0
    for place in range(len(numbers)):
        number = numbers[place]
        if fours:
            four[place] = number
        if twos:
            two[place] = number >> above_two
        if ones:
            one[place] = number >> above_one


@compiled
def folded_into_planes(
    words: Ring, nodes: Ints32, mask: Ring, four: Any, two: Any, one: Any, above_two: Any, above_one: Any
) -> None:
    """The lower bytes of rows × (nodes · words), with each row's words at its node and zero elsewhere, less a mask."""
    fours, twos, ones, width = len(four) > 0, len(two) > 0, len(one) > 0, words.shape[1]
    place = 0
    for row in range(len(words)):
        begin = nodes[row] * width
        for column in range(mask.shape[1]):
            number = np.uint64(0) - mask[row, column]
            if begin <= column < begin + width:
                number += words[row, column - begin]
            if fours:
                four[place] = number
            if twos:
                two[place] = number >> above_two
            if ones:
                one[place] = number >> above_one
            place += 1


@compiled
def node_sums(words: Ring, nodes: Ints32, count: int) -> Ring:
    """The sum of the rows of each node; rows at -1 are in none."""
    sums = np.zeros((count, words.shape[1]), np.uint64)
    for row in range(len(words)):
        if nodes[row] >= 0:
            for word in range(words.shape[1]):
                sums[nodes[row], word] += words[row, word]
    return sums


@compiled
def from_planes(numbers: Ring, four: Any, two: Any, one: Any, above_two: Any, above_one: Any) -> None:
    """The numbers whose lower bytes these are."""
    fours, twos, ones = len(four) > 0, len(two) > 0, len(one) > 0
    for place in range(len(numbers)):
        number = np.uint64(0)
        if fours:
            number = np.uint64(four[place])
        if twos:
            number |= np.uint64(two[place]) << above_two
        if ones:
            number |= np.uint64(one[place]) << above_one
        numbers[place] = number


@compiled
def sort_rows(bins: NDArray[Any], sizes: Ints, nodes: Ints32, count: int) -> tuple[Places, Ints]:
    """For each column the rows that are in a node, sorted by node and bin, and how many each run has."""
    inside = 0
    for node in nodes:
        inside += node >= 0
    orders, lengths = np.empty((len(sizes), inside), np.uint32), np.zeros(count * sizes.sum(), np.int64)
    begin = 0
    for column in range(len(sizes)):
        size = sizes[column]
        runs = lengths[begin : begin + count * size]
        for row in range(len(nodes)):
            if nodes[row] >= 0:
                runs[nodes[row] * size + np.int64(bins[row, column])] += 1
        ends = np.cumsum(runs) - runs
        for row in range(len(nodes)):
            if nodes[row] >= 0:
                run = nodes[row] * size + np.int64(bins[row, column])
                orders[column, ends[run]] = row
                ends[run] += 1
        begin += count * size
    return orders, lengths


@compiled
def left_sums(
    values: Ring,
    opened: Ring,
    places: Any,
    orders: Places,
    lengths: Ints,
    sizes: Ints,
    begins: Ints,
    inside: Ints,
    nodes: Ints,
) -> Ring:
    """The sums of runs, as runs × words: what was opened in the order of summation, and what was dealt in its place.

    Blocks of rows begin at `begins`, have so many rows `inside` of so many `nodes`, each with a run for each bin;
    columns have `sizes` bins. Runs are short: differences of running totals take no branch for each of them.
    """
    sums, totals = np.empty((len(lengths), opened.shape[1]), np.uint64), np.zeros(orders.shape[1] + 1, np.uint64)
    for word in range(opened.shape[1]):
        run = 0
        for column in range(orders.shape[0]):
            at, total = 0, np.uint64(0)
            for block in range(len(nodes)):
                begin = begins[block]
                for slot in range(begin, begin + inside[block]):
                    place, row = begin + np.int64(places[column, slot]), orders[column, at]
                    total += values[column, place, word] + opened[row, word]
                    at += 1
                    totals[at] = total
            run = differences(totals, lengths, run, nodes.sum() * sizes[column], sums[:, word])
    return sums


@compiled
def right_sums(values: Ring, places: Any, lengths: Ints, sizes: Ints, begins: Ints, inside: Ints, nodes: Ints) -> Ring:
    """The sums of runs of what was dealt, as runs × words; the rest as in `left_sums`."""
    words = values.shape[2]
    sums, totals = np.empty((len(lengths), words), np.uint64), np.zeros(inside.sum() + 1, np.uint64)
    for word in range(words):
        run = 0
        for column in range(places.shape[0]):
            at, total = 0, np.uint64(0)
            for block in range(len(nodes)):
                begin = begins[block]
                for slot in range(begin, begin + inside[block]):
                    total += values[column, begin + np.int64(places[column, slot]), word]
                    at += 1
                    totals[at] = total
            run = differences(totals, lengths, run, nodes.sum() * sizes[column], sums[:, word])
    return sums


@compiled
def differences(totals: Ring, lengths: Ints, first: int, count: int, into: Ring) -> int:
    """The sums of so many runs from the first one on, from running totals; the run after them."""
    at = 0
    for run in range(first, first + count):
        end = at + lengths[run]
        into[run] = totals[end] - totals[at]
        at = end
    return first + count
