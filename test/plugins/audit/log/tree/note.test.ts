import { checkpointText, parseCheckpoint } from '@svc/plugin-audit/internal/log/format/checkpoint'
import { judgeNote, parseNote } from '@svc/plugin-audit/internal/log/format/note'
import { noteKeyId } from '@svc/plugin-audit/internal/log/keys/public-key'
import { signNote } from '@svc/plugin-audit/internal/log/keys/signatures'
import { leafHash } from '@svc/plugin-audit/internal/log/merkle/tree-hash'
import { notePieces } from '@svc/plugin-audit/internal/log/tree/checkpoint-file'
import { LocalDevSigner, verifierFromPublicKey } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import fc from 'fast-check'
import { openNote } from '../seal/independent-verifier.js'
import { signer } from '../writer/records.js'

const origin = 'audit.example.com/prod'
const root = leafHash(Buffer.from('a line'))
const head = { origin, size: 1, root }
const own = [verifierFromPublicKey(signer.publicKey)]
const other = LocalDevSigner.fromSeed(new Uint8Array(32).fill(9))

describe('signed notes', () => {
  it('have the key id that c2sp.org/signed-note defines: that of the Go checksum database', () => {
    // Its well-known verifier key, <name>+<id>+<base64 of type and key>.
    const [name = '', id, key = ''] = 'sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8'
      .match(/^([^+]+)\+([^+]+)\+(.+)$/)!
      .slice(1)
    const publicKey = Buffer.from(key, 'base64').subarray(1)
    expect(Buffer.from(noteKeyId(name, publicKey)).toString('hex')).to.equal(id)
  })

  it('are accepted by a verifier written from the specification alone', async () => {
    const signed = await signNote(checkpointText(head), origin, [signer])
    expect(openNote(signed, origin, signer.publicKey)).to.equal(
      `${origin}\n1\n${Buffer.from(root, 'binary').toString('base64')}\n`,
    )
  })

  it('may have several signatures', async () => {
    const signed = await signNote(checkpointText(head), origin, [signer, other])
    for (const { publicKey } of [signer, other]) {
      expect(openNote(signed, origin, publicKey)).to.equal(checkpointText(head))
    }
  })

  it('survive parsing unchanged', async () => {
    const signed = await signNote(checkpointText(head), origin, [signer])
    const note = parseNote(signed)!
    expect(judgeNote(note, origin, own).kind).to.equal('verified')
    expect(parseCheckpoint(note.text)).to.deep.equal(head)
  })

  it('are signed by asynchronous signers too', async () => {
    const slow = {
      keyId: signer.keyId,
      publicKey: signer.publicKey,
      sign: () => new Uint8Array(0),
      verify: () => true,
      signAsync: async (data: Uint8Array) => signer.sign(data),
    }
    const signed = await signNote('text\n', 'name', [slow])
    expect(openNote(signed, 'name', signer.publicKey)).to.equal('text\n')
  })

  it('distinguish an unknown key from a wrong signature', async () => {
    const signed = await signNote('text\n', 'name', [signer])
    expect(judgeNote(parseNote(signed)!, 'other', own).kind).to.equal('unknown_key')
    const stranger = [verifierFromPublicKey(other.publicKey)]
    expect(judgeNote(parseNote(signed)!, 'name', stranger).kind).to.equal('unknown_key')
    expect(judgeNote(parseNote(signed.replace('text', 'tent'))!, 'name', own).kind).to.equal('bad_signature')
  })

  it('ignore signatures of unknown keys, and are invalid with a wrong signature of a known key', async () => {
    const mine = await signNote('text\n', 'name', [signer])
    const theirs = (await signNote('text\n', 'name', [other])).slice('text\n\n'.length)
    expect(judgeNote(parseNote(mine + theirs)!, 'name', own).kind).to.equal('verified')
    const wrong = (await signNote('tent\n', 'name', [signer])).slice('tent\n\n'.length)
    expect(judgeNote(parseNote(mine + wrong)!, 'name', own).kind).to.equal('bad_signature')
  })

  for (const [title, change] of [
    ['no final newline', (text: string) => text.slice(0, -1)],
    ['no empty line', (text: string) => text.replace('\n\n', '\n')],
    ['no signature', (text: string) => `${text.split('\n\n')[0]}\n\n`],
    ['a carriage return', (text: string) => text.replace('\n', '\r\n')],
    ['a tab', (text: string) => text.replace('text', 'te\txt')],
    ['a hyphen for the dash', (text: string) => text.replace('\u2014', '-')],
    ['two spaces', (text: string) => text.replace('name ', 'name  ')],
    ['a plus in the key name', (text: string) => text.replace('\u2014 name', '\u2014 na+me')],
    ['a no-break space in the key name', (text: string) => text.replace('\u2014 name', '\u2014 na\u00a0me')],
    ['base64 without padding', (text: string) => text.replace(/=+\n$/, '\n')],
    ['a signature of nothing', (text: string) => text.replace(/name \S+/, 'name AAAAAA==')],
    ['seventeen signatures', (text: string) => text + text.slice(text.indexOf('\u2014')).repeat(16)],
  ] as const) {
    it(`are rejected with ${title}`, async () => {
      const signed = change(await signNote('text\n', 'name', [signer]))
      expect(parseNote(signed)).to.equal(undefined)
    })
  }

  it('never verify after any single byte was changed', async () => {
    const bytes = Buffer.from(await signNote(checkpointText(head), origin, [signer]))
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), (at, difference) => {
        const changed = Buffer.from(bytes)
        changed[at] = changed[at]! ^ difference
        const [piece] = notePieces(changed, `${origin}\n`)
        const verified =
          piece?.note !== undefined &&
          !piece.torn &&
          judgeNote(piece.note, parseCheckpoint(piece.note.text)?.origin ?? '', own).kind === 'verified'
        expect(verified).to.equal(false)
      }),
      { numRuns: 400 },
    )
  })
})

describe('the text of a checkpoint', () => {
  const text = checkpointText(head)

  for (const [title, changed] of [
    ['a leading zero', text.replace('\n1\n', '\n01\n')],
    ['a negative size', text.replace('\n1\n', '\n-1\n')],
    ['a size beyond the exact integers', text.replace('\n1\n', '\n9007199254740993\n')],
    ['a root of 31 bytes', text.replace(/\n\S{43}=\n/, `\n${Buffer.alloc(31).toString('base64')}\n`)],
    ['an origin without a dot', text.replaceAll('.', '-')],
    ['an origin with a space', text.replace('audit', 'audit ')],
    ['an extension line', `${text}prev\n`],
    ['no final newline', text.slice(0, -1)],
  ] as const) {
    it(`is rejected with ${title}`, () => {
      expect(parseCheckpoint(changed)).to.equal(undefined)
    })
  }
})

describe('a file of notes', () => {
  it('splits into notes with line numbers, and distinguishes a torn last one from a damaged one', async () => {
    const note = await signNote(checkpointText(head), origin, [signer])
    const damaged = note.replace('\n1\n', '\nx\n')
    const bytes = Buffer.from(`${note}${damaged}${note}${note.slice(0, 150)}`)
    const pieces = [...notePieces(bytes, `${origin}\n`)]
    expect(pieces.map(({ line, torn }) => [line, torn])).to.deep.equal([
      [1, false],
      [6, false],
      [11, false],
      [16, true],
    ])
    expect(
      pieces.map(({ note }) => note !== undefined && parseCheckpoint(note.text) !== undefined),
    ).to.deep.equal([true, false, true, false])
    expect([...notePieces(new Uint8Array(0), origin)]).to.deep.equal([])
  })

  it('distinguishes a torn note from the one before it, wherever the torn one ends', async () => {
    const note = Buffer.from(await signNote(checkpointText(head), origin, [signer, other]))
    for (let end = 1; end < note.length; end++) {
      const pieces = [...notePieces(Buffer.concat([note, note.subarray(0, end)]), `${origin}\n`)]
      expect(pieces[0]?.note, `${end} bytes`).to.not.equal(undefined)
      expect(pieces[0]?.torn, `${end} bytes`).to.equal(false)
      // With one of two signatures it is a note, and what follows it is torn.
      const isSigned =
        note
          .subarray(0, end)
          .toString()
          .match(/\n\n\u2014 [^\n]*\n/) !== null
      expect(pieces.at(-1)?.torn, `${end} bytes`).to.equal(!isSigned || pieces.length === 3)
    }
  })
})
