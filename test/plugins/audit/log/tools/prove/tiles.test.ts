import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { publishTiles } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import fc from 'fast-check'
import { LogBuilder } from '../../../../../support/audit-log.js'
import { rejectionOf } from '../../../../../support/rejection.js'

const DAY = '2026-11-21'

const sha256 = (...parts: readonly Uint8Array[]) => createHash('sha256').update(Buffer.concat(parts)).digest()

/** A client of c2sp.org/tlog-tiles: every hash comes from the tiles of the tree's size. */
class Client {
  constructor(readonly out: string) {}

  get checkpoint(): { origin: string; size: number; root: string } {
    const [origin = '', size = '', root = ''] = readFileSync(join(this.out, 'checkpoint'), 'utf8').split('\n')
    return { origin, size: Number(size), root }
  }

  /** The root of the leaves `[start, end)` by RFC 6962 §2.1. */
  root(start: number, end: number): Buffer {
    const { size } = this.checkpoint
    const width = end - start
    for (let level = 0; 256 ** level <= width; level++)
      if (width === 256 ** level && start % width === 0) return this.hash(level, start / width, size)
    let left = 1
    while (left * 2 < width) left *= 2
    return sha256(Buffer.of(1), this.root(start, start + left), this.root(start + left, end))
  }

  hash(level: number, index: number, size: number): Buffer {
    const tile = Math.floor(index / 256)
    const width = Math.min(256, Math.floor(size / 256 ** level) - tile * 256)
    const name = String(tile).padStart(3, '0')
    const bytes = readFileSync(join(this.out, `tile/${level}/${name}${width < 256 ? `.p/${width}` : ''}`))
    expect(bytes.length).to.equal(width * 32)
    return bytes.subarray((index % 256) * 32, ((index % 256) + 1) * 32)
  }
}

describe('publishTiles', () => {
  let root = ''
  let log: LogBuilder
  let [dir, out] = ['', '']
  let client: Client

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'svc-tiles-'))
    dir = join(root, 'log')
    out = join(root, 'tiles')
    mkdirSync(dir)
    log = new LogBuilder(dir)
    client = new Client(out)
  })

  afterEach(() => rmSync(root, { recursive: true, force: true }))

  function tilesIn(folder: string): string[] {
    const found = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
      entry.isFile(),
    )
    return found
      .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
      .filter((path) => path !== 'checkpoint')
  }

  function grow(records: number): void {
    for (let i = 0; i < records; i++) log.record(DAY)
    log.seal()
    log.finish()
  }

  it('writes tiles that lead a client to the root of the checkpoint, of every size', async () => {
    for (const records of [1, 3, 250, 1, 1, 260, 700]) {
      grow(records)
      const { size, absent } = await publishTiles(dir, out)
      expect([size, absent]).to.deep.equal([log.size, []])
      expect(client.checkpoint).to.deep.include({ origin: log.origin, size })
      expect(client.root(0, size).toString('base64')).to.equal(client.checkpoint.root)
      const leaf = sha256(Buffer.of(0), Buffer.from(log.lines.at(-1) ?? ''))
      expect(client.hash(0, size - 1, size).equals(leaf)).to.equal(true)
    }
  })

  it('keeps the tiles of smaller trees, and writes none again', async () => {
    grow(300)
    await publishTiles(dir, out)
    const first = readdirSync(out, { recursive: true }).map(String)
    const again = await publishTiles(dir, out)
    grow(1)
    await publishTiles(dir, out)
    expect(again.written).to.equal(0)
    expect(readdirSync(out, { recursive: true })).to.include.members(first)
  })

  it('does not publish a hash that does not lead to the checkpoint', async () => {
    grow(600)
    await publishTiles(dir, out)
    const before = readFileSync(join(out, 'checkpoint'), 'utf8')
    grow(600)
    const leaves = readFileSync(join(dir, 'tree/0/0'))
    leaves[700 * 32] = (leaves[700 * 32] ?? 0) ^ 1
    writeFileSync(join(dir, 'tree/0/0'), leaves)
    expect(await rejectionOf(publishTiles(dir, out))).to.include({ code: 'log_unlinked' })
    expect(readFileSync(join(out, 'checkpoint'), 'utf8')).to.equal(before)
    expect(existsSync(join(out, 'tile/0/002'))).to.equal(false)
  })

  it('leaves out the tile of which a hash is not known, and names it', async () => {
    grow(600)
    const leaves = readFileSync(join(dir, 'tree/0/0'))
    leaves.fill(0, 300 * 32, 301 * 32)
    writeFileSync(join(dir, 'tree/0/0'), leaves)
    const { absent } = await publishTiles(dir, out)
    expect(absent).to.deep.equal(['tile/0/001'])
    expect(existsSync(join(out, 'tile/0/001'))).to.equal(false)
    expect(existsSync(join(out, 'tile/0/000'))).to.equal(true)
  })

  it('leaves out a partial tile of which a hash is not known, and goes on with the next size', async () => {
    grow(600)
    for (const [path, at] of [
      ['tree/0/0', 599],
      ['tree/8/0', 1],
    ] as const) {
      const hashes = readFileSync(join(dir, path))
      hashes.fill(0, at * 32, (at + 1) * 32)
      writeFileSync(join(dir, path), hashes)
    }
    const { absent, size } = await publishTiles(dir, out)
    expect(absent).to.deep.equal(['tile/0/001', 'tile/0/002.p/90', 'tile/1/000.p/2'])
    expect(client.checkpoint.size).to.equal(size)
    const wanted = client.hash(0, 255, size)
    grow(5)
    expect((await publishTiles(dir, out)).absent).to.deep.equal([])
    expect(client.hash(0, 255, size).equals(wanted)).to.equal(true)
    expect(client.root(0, log.size).toString('base64')).to.equal(client.checkpoint.root)
  })

  it('publishes only right hashes, and names every other tile, whichever hashes are not known', async () => {
    grow(700)
    await publishTiles(dir, out)
    const whole = new Map(tilesIn(out).map((path) => [path, readFileSync(join(out, path))]))
    const files = ['tree/0/0', 'tree/8/0'].map((path) => [path, readFileSync(join(dir, path))] as const)
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(701), { maxLength: 6 }),
        fc.subarray([0, 1]),
        async (leaves, nodes) => {
          rmSync(out, { recursive: true, force: true })
          for (const [at, [path, known]] of files.entries()) {
            const bytes = Buffer.from(known)
            for (const index of at === 0 ? leaves : nodes) bytes.fill(0, index * 32, (index + 1) * 32)
            writeFileSync(join(dir, path), bytes)
          }
          const { absent, written } = await publishTiles(dir, out)
          expect([...tilesIn(out), ...absent].sort()).to.deep.equal([...whole.keys()].sort())
          expect(written + absent.length).to.equal(whole.size)
          for (const path of tilesIn(out))
            expect(readFileSync(join(out, path)).equals(whole.get(path)!)).to.equal(true)
        },
      ),
      { numRuns: 40 },
    )
  })

  it('leaves out the edge over a removed day of which the tree has covers only', async () => {
    grow(200)
    for (let i = 0; i < 70; i++) log.record('2026-11-22')
    log.seal()
    log.remove('2026-11-22')
    log.record(DAY)
    log.seal()
    log.finish()
    const leaves = readFileSync(join(dir, 'tree/0/0'))
    leaves.fill(0, 203 * 32, 273 * 32)
    writeFileSync(join(dir, 'tree/0/0'), leaves)
    const { absent } = await publishTiles(dir, out)
    expect(absent).to.deep.equal(['tile/0/000', `tile/0/001.p/${log.size - 256}`])
    expect(client.hash(1, 0, log.size).length).to.equal(32)
  })

  it('does not publish a partial tile that does not lead to the checkpoint', async () => {
    grow(600)
    const leaves = readFileSync(join(dir, 'tree/0/0'))
    leaves[599 * 32] = (leaves[599 * 32] ?? 0) ^ 1
    writeFileSync(join(dir, 'tree/0/0'), leaves)
    expect(await rejectionOf(publishTiles(dir, out))).to.include({ code: 'log_unlinked' })
    expect(existsSync(out)).to.equal(false)
  })

  /** The entries of a bundle. */
  function entriesOf(path: string): Buffer[] {
    const bytes = readFileSync(join(out, path))
    const entries: Buffer[] = []
    for (let at = 0; at < bytes.length; ) {
      const end = at + 2 + bytes.readUInt16BE(at)
      entries.push(bytes.subarray(at + 2, end))
      at = end
    }
    return entries
  }

  it('writes bundles with the entries whose hashes are in the tiles, and none again', async () => {
    for (const records of [300, 1, 260]) {
      grow(records)
      const { absent } = await publishTiles(dir, out, { entries: true })
      expect(absent).to.deep.equal([])
      const { size } = client.checkpoint
      for (let index = 0; index * 256 < size; index++) {
        const width = Math.min(256, size - index * 256)
        const name = `${String(index).padStart(3, '0')}${width < 256 ? `.p/${width}` : ''}`
        const hashes = entriesOf(`tile/entries/${name}`).map((entry) => sha256(Buffer.of(0), entry))
        expect(hashes).to.have.length(width)
        expect(Buffer.concat(hashes).equals(readFileSync(join(out, `tile/0/${name}`)))).to.equal(true)
      }
      expect((await publishTiles(dir, out, { entries: true })).written).to.equal(0)
    }
  })

  it('leaves out the bundle with a line that is too long, of a removed day, or changed, and names it', async () => {
    for (let i = 0; i < 200; i++) log.record('2026-11-22')
    log.record(DAY, { text: 'x'.repeat(65_536) })
    for (let i = 0; i < 1_100; i++) log.record(DAY)
    log.seal()
    log.remove('2026-11-22')
    log.finish()
    const file = join(dir, `audit-${DAY}.ndjson`)
    const lines = readFileSync(file, 'utf8').split('\n')
    writeFileSync(file, lines.with(800, lines[800]!.replace('acme', 'evil')).join('\n'))
    const { absent } = await publishTiles(dir, out, { entries: true })
    // The days are sealed in their order: the long line is leaf 1, those of the removed day follow leaf 1101.
    const last = `tile/entries/005.p/${log.size - 5 * 256}`
    expect(absent).to.deep.equal(['tile/entries/000', 'tile/entries/003', 'tile/entries/004', last])
    expect(entriesOf('tile/entries/001')[0]!.toString()).to.equal(lines[255])
  })

  it('never replaces the checkpoint by a smaller one, or by that of another log', async () => {
    grow(10)
    await publishTiles(dir, out)
    const before = readFileSync(join(out, 'checkpoint'), 'utf8')
    for (const options of [{}, { logId: 'ff112233445566778899aabbccddeeff' }]) {
      rmSync(dir, { recursive: true })
      mkdirSync(dir)
      log = new LogBuilder(dir, options)
      grow(options.logId === undefined ? 5 : 50)
      expect(await rejectionOf(publishTiles(dir, out))).to.include({ code: 'log_changed' })
      expect(readFileSync(join(out, 'checkpoint'), 'utf8')).to.equal(before)
    }
  })
})
