import { createHash } from 'node:crypto'
import { canonicalize } from '@svc/core/json'
import { encodeLock, parseLockOwner } from '@svc/plugin-audit/internal/log/files/directory-lock'
import { checkpointText, parseCheckpoint } from '@svc/plugin-audit/internal/log/format/checkpoint'
import { digestToBase64 } from '@svc/plugin-audit/internal/log/format/digest'
import { encodeJournalLine, parseJournalLine } from '@svc/plugin-audit/internal/log/format/journal-codec'
import type {
  JournalBody,
  JournalLine,
  UnsignedJournalLine,
} from '@svc/plugin-audit/internal/log/format/journal-line'
import { recordPlace } from '@svc/plugin-audit/internal/log/format/stored-record'
import { parseTreePath, placeOfHash, treeFileBytes } from '@svc/plugin-audit/internal/log/format/tree-layout'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { hasSigned, signJson } from '@svc/plugin-audit/internal/log/keys/signatures'
import { alignedSubtrees } from '@svc/plugin-audit/internal/log/merkle/leaf-range'
import { EMPTY_ROOT } from '@svc/plugin-audit/internal/log/merkle/tree-hash'
import { JournalState } from '@svc/plugin-audit/internal/log/tree/journal-state'
import { LocalDevSigner } from '@svc/plugin-audit/log'
import { expect } from 'chai'

const signer = LocalDevSigner.fromSeed(new Uint8Array(32).fill(7))
const other = LocalDevSigner.fromSeed(new Uint8Array(32).fill(8))
const third = LocalDevSigner.fromSeed(new Uint8Array(32).fill(9))
const LOG_ID = '00112233445566778899aabbccddeeff'
const ROOT = digestToBase64(EMPTY_ROOT)
const genesis: JournalBody = {
  kind: 'genesis',
  format: 1,
  origin: 'audit.example/one',
  retention_days: 30,
  key: publicKeyLine(signer.publicKey),
}

const line = (body: JournalBody, leaf: number, by = signer, at = '2026-11-21T10:00:00.000Z') =>
  signJson<UnsignedJournalLine>(
    { journal: 1, log_id: LOG_ID, leaf, root: ROOT, at, key_id: by.keyId, ...body },
    by,
  )

/** The state after `lines`, each of which must continue the ones before. */
function stateAfter(...lines: JournalLine[]): JournalState {
  const state = new JournalState()
  for (const one of lines) {
    expect(state.whyNot(one)).to.equal(undefined)
    state.apply(one)
  }
  return state
}

describe('the journal format', () => {
  it('stores a line as canonical JSON whose signature covers it without sig', async () => {
    const made = await line(genesis, 0)
    const { sig, ...unsigned } = made
    const bytes = encodeJournalLine(made)
    expect(Buffer.from(bytes).toString()).to.equal(canonicalize({ ...unsigned, sig }))
    const signature = Buffer.from(sig.slice('ed25519:'.length), 'base64')
    expect(signer.verify(Buffer.from(canonicalize(unsigned)), signature)).to.equal(true)
    expect(parseJournalLine(bytes)).to.deep.equal(made)
    expect(hasSigned(made, signer)).to.equal(true)
    expect(hasSigned({ ...made, leaf: 1 }, signer)).to.equal(false)
    expect(hasSigned(made, other)).to.equal(false)
  })

  it('refuses lines that are malformed or not canonical', async () => {
    const made = await line(genesis, 0)
    const wrong: [string, unknown][] = [
      ['journal', 2],
      ['kind', 'other'],
      ['log_id', 'ABC'],
      ['leaf', -1],
      ['root', 'AAAA'],
      ['at', '2026-11-21T10:00:00Z'],
      ['origin', 'two words'],
      ['key', 'ed25519:AAAA'],
    ]
    for (const [name, value] of wrong) {
      const bytes = Buffer.from(canonicalize({ ...made, [name]: value }))
      expect(parseJournalLine(bytes), name).to.equal(undefined)
    }
    expect(parseJournalLine(Buffer.from(`${canonicalize(made)} `))).to.equal(undefined)
    expect(parseJournalLine(Buffer.from('[]'))).to.equal(undefined)
  })

  it('recognises plain seals, and refuses what only looks like one', async () => {
    const made = await line({ kind: 'seal', ranges: [['2026-11-21', 0, 30, 3]] }, 4)
    const text = canonicalize(made)
    expect(parseJournalLine(Buffer.from(text))).to.deep.equal(made)
    const more = { ...made, note: 'a member that is not known' }
    expect(parseJournalLine(Buffer.from(canonicalize(more)))).to.deep.equal(more)
    for (const [from, to] of [
      [/"at":"....-..-../, '"at":"2026-02-30'],
      [/T\d\d:/, 'T24:'],
      [/"leaf":4/, '"leaf":04'],
      [/"leaf":4/, '"leaf":4.0'],
      [/"leaf":4/, '"leaf":9007199254740992'],
      [/,30,3/, ', 30,3'],
      [/,30,3/, ',-30,3'],
      [/\["2026-11-21"/, '["2026-11-31"'],
      [/\]\]/, ']]]'],
      [/"root":"....(.*?)="/, '"root":"$1="'],
      [/"kind":"seal",/, '"kind":"seal","kind":"seal",'],
      [/"sig":"/, '"sig":"\u0000'],
    ] as const) {
      const changed = text.replace(from, to)
      expect(changed).to.not.equal(text)
      expect(parseJournalLine(Buffer.from(changed)), changed).to.equal(undefined)
    }
  })

  it('accepts a journal whose ranges adjoin and refuses one with a gap', async () => {
    const state = stateAfter(
      await line(genesis, 0),
      await line({ kind: 'seal', ranges: [['2026-11-21', 0, 30, 3]] }, 4),
    )
    const next = (start: number, leaf: number) =>
      line({ kind: 'seal', ranges: [['2026-11-21', start, start + 9, 1]] }, leaf)
    expect(state.whyNot(await next(30, 6))).to.equal(undefined)
    expect(state.whyNot(await next(31, 6))).to.match(/starts at byte 31, not at 30/)
    expect(state.whyNot(await next(30, 7))).to.match(/lead to 6/)
    expect(state.whyNot(await line(genesis, 5))).to.match(/genesis/)
    const long = await line({ kind: 'seal', ranges: [['2026-11-21', 30, 9_999, 4_092]] }, 5 + 4_092)
    expect(state.whyNot(long)).to.match(/crosses/)
  })

  it('continues from a seal with ends as from the genesis', async () => {
    const first = stateAfter(await line(genesis, 0))
    const ranges = [['2026-11-21', 0, 30, 3]] as const
    const seal = await line(
      {
        kind: 'seal',
        ranges,
        ...first.summary(ranges, first.lastAt),
      },
      4,
    )
    first.apply(seal)
    const resumed = JournalState.after(seal)
    expect(resumed?.size).to.equal(first.size)
    expect(resumed?.ends).to.deep.equal(first.ends)
    expect(resumed?.keys.spans()).to.deep.equal(first.keys.spans())
    expect(resumed?.since).to.equal(first.since)
  })

  it('keeps the last step of more than 36 hours between lines', async () => {
    const state = stateAfter(
      await line(genesis, 0),
      await line({ kind: 'seal', ranges: [] }, 1, signer, '2026-11-22T21:59:00.000Z'),
    )
    expect(state.since).to.equal('2026-11-21T10:00:00.000Z')
    state.apply(await line({ kind: 'seal', ranges: [] }, 2, signer, '2026-11-20T10:00:00.000Z'))
    expect(state.since).to.equal('2026-11-20T10:00:00.000Z')
  })
})

describe('the keys of a log', () => {
  const key = publicKeyLine(other.publicKey)

  it('are trusted by leaf index, from the line after they enter to the leaf at which they leave', async () => {
    const { keys } = stateAfter(
      await line(genesis, 0),
      await line({ kind: 'key', key, retired: signer.keyId, until: 9 }, 1),
    )
    expect(keys.at(other.keyId, 1)).to.equal(undefined)
    expect(keys.at(other.keyId, 2)?.keyId).to.equal(other.keyId)
    expect(keys.allAt(8).map(({ keyId }) => keyId)).to.have.members([signer.keyId, other.keyId])
    expect(keys.allAt(9).map(({ keyId }) => keyId)).to.deep.equal([other.keyId])
  })

  it('are not trusted if a revoked key introduced them after its revocation', async () => {
    const stolen = publicKeyLine(third.publicKey)
    const { keys } = stateAfter(
      await line(genesis, 0),
      await line({ kind: 'key', key }, 1),
      await line({ kind: 'key', key: stolen }, 2),
      await line({ kind: 'revoke', revoked: signer.keyId, until: 2 }, 3, other),
    )
    expect(keys.allAt(4).map(({ keyId }) => keyId)).to.deep.equal([other.keyId])
  })

  it('cannot take away the trust in the key that signs the line', async () => {
    const state = stateAfter(await line(genesis, 0), await line({ kind: 'key', key }, 1))
    const before = await line({ kind: 'revoke', revoked: signer.keyId, until: 1 }, 2, other)
    const itself = await line({ kind: 'revoke', revoked: signer.keyId, until: 2 }, 2, signer)
    for (const one of [before, itself]) expect(state.whyNot(one)).to.match(/takes away the trust/)
  })
})

describe('the tree format', () => {
  it('tiles a range of leaves with the fewest aligned subtrees', () => {
    expect(alignedSubtrees(3, 13)).to.deep.equal([
      { start: 3, level: 0 },
      { start: 4, level: 2 },
      { start: 8, level: 2 },
      { start: 12, level: 0 },
    ])
    expect(alignedSubtrees(5, 5)).to.deep.equal([])
  })

  it('places hashes in files of 2 MiB', () => {
    expect(placeOfHash(8, 65_537)).to.deep.equal({ path: 'tree/8/1', offset: 32 })
    expect(parseTreePath('tree/8/1')).to.deep.equal({ level: 8, file: 1 })
    for (const path of ['tree/7/0', 'tree/8/01', 'tree/8', 'tree/8/1.tmp']) {
      expect(parseTreePath(path), path).to.equal(undefined)
    }
    expect(treeFileBytes(0, 1, 65_540)).to.equal(4 * 32)
    expect(treeFileBytes(8, 0, 65_540)).to.equal(256 * 32)
    expect(treeFileBytes(0, 2, 65_540)).to.equal(0)
  })

  it('writes checkpoints as tlog-checkpoint does, and parses only those', () => {
    const root = createHash('sha256').update('x').digest('binary')
    const text = checkpointText({ origin: 'audit.example/one', size: 12, root })
    expect(text).to.equal(`audit.example/one\n12\n${Buffer.from(root, 'binary').toString('base64')}\n`)
    expect(parseCheckpoint(text)).to.deep.equal({ origin: 'audit.example/one', size: 12, root })
    for (const other of [`${text}extension\n`, text.slice(0, -1), text.replace('12', '012')]) {
      expect(parseCheckpoint(other), other).to.equal(undefined)
    }
  })

  it('reads the owner after the 16 bytes of the mark', () => {
    const owner = { inode: '1234', logId: LOG_ID }
    const mark = Buffer.from('-              \n')
    expect(encodeLock(owner).toString()).to.equal(`${mark}1234 ${LOG_ID}\n`)
    expect(parseLockOwner(encodeLock(owner))).to.deep.equal(owner)
    expect(parseLockOwner(mark)).to.equal(undefined)
  })

  it('reads the place that a record states', () => {
    const seq = '0123456789abcdef:12'
    expect(recordPlace({ log_id: LOG_ID.slice(0, 16), seq, lost: [[3, 4]] })).to.deep.equal({
      logId: '0011223344556677',
      session: '0123456789abcdef',
      number: 12,
      lost: [[3, 4]],
    })
    expect(recordPlace({ log_id: LOG_ID.slice(0, 16), seq: '0123456789abcdef:012' })).to.equal(undefined)
    expect(recordPlace({ log_id: LOG_ID.slice(0, 16), seq, lost: [[4, 3]] })).to.equal(undefined)
  })
})
