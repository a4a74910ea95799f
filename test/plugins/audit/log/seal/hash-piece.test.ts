import { closeSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { CompactRange } from '@svc/plugin-audit/internal/log/merkle/compact-range'
import { leafHash } from '@svc/plugin-audit/internal/log/merkle/tree-hash'
import { hashPiece } from '@svc/plugin-audit/internal/log/seal/hash-piece'
import { TreeWriter } from '@svc/plugin-audit/internal/log/seal/tree-store'
import { expect } from 'chai'
import fc from 'fast-check'
import { temporaryDir } from '../../temporary.js'

describe('a hashed piece of a log', () => {
  const dir = temporaryDir()
  const path = (name: string) => join(dir.path, name)

  const filesIn = (folder: string) =>
    readdirSync(path(folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name))
      .map((file) => [file.slice(path(folder).length), readFileSync(file, 'hex')])
      .sort()

  const writerIn = (folder: string) => new TreeWriter(path(folder), nodeFileSystem, new CompactRange())

  /** Adds the lines of the log after `from` by pieces; returns how many lines each has. */
  async function addPieces(writer: TreeWriter, from: number, to: number): Promise<number[]> {
    const fd = openSync(path('log'), 'r')
    const pieces: number[] = []
    try {
      for (let at = from; at < to; ) {
        const piece = await hashPiece(nodeFileSystem, fd, { from: at, to, leaf: writer.range.size })
        writer.addPiece(piece)
        pieces.push(piece.lines)
        at = piece.end
      }
    } finally {
      closeSync(fd)
    }
    return pieces
  }

  it('writes the same tree as its lines one by one, wherever it begins and whenever the tree is written', async () => {
    const length = fc.oneof(fc.integer({ min: 1, max: 600 }), fc.integer({ min: 4_000, max: 9_000 }))
    const seal = fc.record({ lines: length, isFlushed: fc.boolean(), single: fc.integer({ min: 0, max: 3 }) })
    await fc.assert(
      fc.asyncProperty(fc.array(seal, { minLength: 1, maxLength: 4 }), async (seals) => {
        for (const name of readdirSync(dir.path)) rmSync(path(name), { recursive: true })
        const [whole, single] = [writerIn('whole'), writerIn('single')]
        for (const { lines, isFlushed, single: others } of seals) {
          const log = Array.from({ length: lines }, (_, i) => `{"line":${whole.range.size + i}}`)
          const text = log.map((line) => `${line}\n`).join('')
          writeFileSync(path('log'), text)
          await addPieces(whole, 0, text.length)
          for (const line of log) single.add(leafHash(Buffer.from(line)))
          // Journal lines are leaves of their own.
          for (let i = 0; i < others; i++) for (const each of [whole, single]) each.add('\x01'.repeat(32))
          expect([whole.range.size, whole.pending]).to.deep.equal([single.range.size, single.pending])
          if (isFlushed) for (const each of [whole, single]) each.flush()
        }
        for (const each of [whole, single]) each.flush()
        expect(whole.range.root()).to.equal(single.range.root())
        expect(filesIn('whole')).to.deep.equal(filesIn('single'))
      }),
      { numRuns: 20 },
    )
  })

  it('ends at a multiple of 4096 leaves, or with its log', async () => {
    writeFileSync(path('log'), '{}\n'.repeat(9_000))
    const writer = writerIn('tree')
    for (let leaf = 0; leaf < 4_094; leaf++) writer.add('\x01'.repeat(32))
    expect(await addPieces(writer, 3_000, 27_000)).to.deep.equal([2, 4_096, 3_902])
  })
})
