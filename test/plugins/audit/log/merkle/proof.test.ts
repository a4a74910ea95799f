import { createHash } from 'node:crypto'
import type { Digest } from '@svc/plugin-audit/internal/log/format/digest'
import {
  consistencyRanges,
  inclusionRanges,
  type LeafSpan,
} from '@svc/plugin-audit/internal/log/format/merkle-proof'
import { LeafRange } from '@svc/plugin-audit/internal/log/merkle/leaf-range'
import {
  digestFromBytes,
  EMPTY_ROOT,
  leafHash,
  verifyConsistency,
  verifyInclusion,
} from '@svc/plugin-audit/internal/log/merkle/tree-hash'
import { expect } from 'chai'
import fc from 'fast-check'

// The leaves and roots that Certificate Transparency's own tests use.
const CT_LEAVES = [
  '',
  '00',
  '10',
  '2021',
  '3031',
  '40414243',
  '5051525354555657',
  '606162636465666768696a6b6c6d6e6f',
]
const CT_ROOTS = [
  'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
]

// RFC 6962 §2.1 as written, without optimisation.
const sha256 = (...parts: Uint8Array[]) => createHash('sha256').update(Buffer.concat(parts)).digest()
const half = (n: number) => 2 ** Math.ceil(Math.log2(n) - 1)

function mth(leaves: Buffer[]): Buffer {
  if (leaves.length === 0) return sha256()
  if (leaves.length === 1) return sha256(Buffer.of(0), leaves[0]!)
  const k = half(leaves.length)
  return sha256(Buffer.of(1), mth(leaves.slice(0, k)), mth(leaves.slice(k)))
}

function path(m: number, leaves: Buffer[]): Buffer[] {
  if (leaves.length === 1) return []
  const k = half(leaves.length)
  return m < k
    ? [...path(m, leaves.slice(0, k)), mth(leaves.slice(k))]
    : [...path(m - k, leaves.slice(k)), mth(leaves.slice(0, k))]
}

function subproof(m: number, leaves: Buffer[], complete: boolean): Buffer[] {
  if (m === leaves.length) return complete ? [] : [mth(leaves)]
  const k = half(leaves.length)
  return m <= k
    ? [...subproof(m, leaves.slice(0, k), complete), mth(leaves.slice(k))]
    : [...subproof(m - k, leaves.slice(k), false), mth(leaves.slice(0, k))]
}

const leavesOf = (count: number) => Array.from({ length: count }, (_, i) => Buffer.from(`line ${i}`))

function rangeOf(leaves: Buffer[]): LeafRange {
  const range = new LeafRange()
  for (const leaf of leaves) range.append(leafHash(leaf))
  return range
}

function rootsOf(ranges: LeafSpan[], leaves: Buffer[]): Digest[] {
  return ranges.map(({ start, end }) => rangeOf(leaves.slice(start, end)).root())
}

const hex = (digest: Digest) => Buffer.from(digest, 'binary').toString('hex')
const hexes = (digests: Digest[]) => digests.map(hex)

/** A size and a leaf of a tree of that size. */
const leafOfTree = fc
  .integer({ min: 1, max: 130 })
  .chain((size) => fc.tuple(fc.constant(size), fc.nat(size - 1)))
const twoSizes = fc
  .integer({ min: 1, max: 130 })
  .chain((newer) => fc.tuple(fc.integer({ min: 1, max: newer }), fc.constant(newer)))

describe('the Merkle tree over a log', () => {
  it('has the roots of the Certificate Transparency test vectors', () => {
    const leaves = CT_LEAVES.map((leaf) => Buffer.from(leaf, 'hex'))
    const roots = [...Array(CT_LEAVES.length + 1).keys()].map((n) => hex(rangeOf(leaves.slice(0, n)).root()))
    expect(roots).to.deep.equal(CT_ROOTS)
    expect(hex(EMPTY_ROOT)).to.equal(CT_ROOTS[0])
  })

  it('has the root that RFC 6962 defines, at every size', () => {
    const leaves = leavesOf(130)
    const range = new LeafRange()
    for (const [i, leaf] of leaves.entries()) {
      range.append(leafHash(leaf))
      expect(hex(range.root()), `${i + 1} leaves`).to.equal(mth(leaves.slice(0, i + 1)).toString('hex'))
    }
  })

  it('gives the inclusion proofs of RFC 6962 §2.1.1', () => {
    fc.assert(
      fc.property(leafOfTree, ([size, index]) => {
        const leaves = leavesOf(size)
        expect(hexes(rootsOf(inclusionRanges(index, size), leaves))).to.deep.equal(
          path(index, leaves).map((node) => node.toString('hex')),
        )
      }),
    )
  })

  it('accepts an inclusion proof only for its leaf, index and root', () => {
    fc.assert(
      fc.property(leafOfTree, fc.nat(), ([size, index], salt) => {
        const leaves = leavesOf(size)
        const proof = rootsOf(inclusionRanges(index, size), leaves)
        const root = rangeOf(leaves).root()
        const leaf = leafHash(leaves[index]!)
        expect(verifyInclusion(leaf, { index, size }, proof, root)).to.equal(true)
        expect(verifyInclusion(leafHash(Buffer.from('other')), { index, size }, proof, root)).to.equal(false)
        expect(verifyInclusion(leaf, { index, size }, proof, EMPTY_ROOT)).to.equal(false)
        expect(verifyInclusion(leaf, { index, size }, [...proof, root], root)).to.equal(false)
        expect(verifyInclusion(leaf, { index: size, size }, proof, root)).to.equal(false)
        if (proof.length === 0) return
        expect(verifyInclusion(leaf, { index, size }, proof.slice(1), root)).to.equal(false)
        const changed = proof.with(salt % proof.length, EMPTY_ROOT)
        expect(verifyInclusion(leaf, { index, size }, changed, root)).to.equal(false)
      }),
    )
  })

  it('gives the consistency proofs of RFC 6962 §2.1.2, and accepts them', () => {
    fc.assert(
      fc.property(twoSizes, ([older, newer]) => {
        const leaves = leavesOf(newer)
        const proof = rootsOf(consistencyRanges(older, newer), leaves)
        expect(hexes(proof)).to.deep.equal(subproof(older, leaves, true).map((node) => node.toString('hex')))
        const heads = [older, newer].map((size) => ({ size, root: rangeOf(leaves.slice(0, size)).root() }))
        expect(verifyConsistency(heads[0]!, heads[1]!, proof)).to.equal(true)
      }),
    )
  })

  it('rejects a consistency proof for a tree that is not a prefix', () => {
    fc.assert(
      fc.property(twoSizes, fc.nat(), ([older, newer], salt) => {
        const leaves = leavesOf(newer)
        const proof = rootsOf(consistencyRanges(older, newer), leaves)
        const later = { size: newer, root: rangeOf(leaves).root() }
        const forged = rangeOf(leaves.slice(0, older).with(salt % older, Buffer.from('forged'))).root()
        expect(verifyConsistency({ size: older, root: forged }, later, proof)).to.equal(false)
        const earlier = { size: older, root: rangeOf(leaves.slice(0, older)).root() }
        expect(verifyConsistency(earlier, later, [...proof, EMPTY_ROOT])).to.equal(false)
        expect(verifyConsistency(later, earlier, proof)).to.equal(older === newer && proof.length === 0)
        if (proof.length === 0) return
        const changed = proof.with(salt % proof.length, EMPTY_ROOT)
        expect(verifyConsistency(earlier, later, changed)).to.equal(false)
      }),
    )
  })

  it('refuses proofs for leaves and trees that do not exist', () => {
    expect(() => inclusionRanges(3, 3)).to.throw(RangeError)
    expect(() => inclusionRanges(-1, 3)).to.throw(RangeError)
    expect(() => consistencyRanges(0, 3)).to.throw(RangeError)
    expect(() => consistencyRanges(4, 3)).to.throw(RangeError)
    expect(() => rangeOf(leavesOf(3)).append(EMPTY_ROOT, 1)).to.throw(RangeError)
    expect(() => digestFromBytes(new Uint8Array(31))).to.throw(RangeError)
  })
})
