import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import fc from 'fast-check'
import { linesBackward } from 'svc-sdk/internal/console/calls/log-tail'
import { temporaryDir } from '../support/temporary-dir.js'

/** Lines shorter and longer than what is read at once. */
const line = fc.oneof(fc.nat(300), fc.integer({ min: 60_000, max: 70_000 }), fc.constant(200_000))

describe('the lines of a log, from the newest backward', () => {
  const home = temporaryDir()

  async function read(maxBytes: number): Promise<{ id: string; text: string }[]> {
    const found = []
    for await (const one of linesBackward(home.path, maxBytes)) found.push(one)
    return found
  }

  it('are those of its end, whatever their lengths, without one that is still being written', async () => {
    const days = ['2026-11-23', '2026-11-24']
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(line, { maxLength: 12 }), { minLength: 2, maxLength: 2 }),
        fc.nat(400_000),
        async (lengths, maxBytes) => {
          let left = maxBytes
          const expected: { id: string; text: string }[] = []
          const texts = lengths.map((all, day) =>
            all.map((length, at) => `${day}-${at}-é`.padEnd(length, 'x')),
          )
          for (const [at, day] of days.entries()) {
            const whole = (texts[at] ?? []).map((text) => `${text}\n`).join('')
            writeFileSync(join(home.path, `audit-${day}.ndjson`), at === 1 ? `${whole}{"half":` : whole)
          }
          for (const at of [1, 0]) {
            let end = Buffer.byteLength((texts[at] ?? []).map((text) => `${text}\n`).join(''))
            const size = end + (at === 1 ? 8 : 0)
            const floor = Math.max(0, size - left)
            if (left <= 0) break
            left -= size - floor
            for (const text of [...(texts[at] ?? [])].reverse()) {
              const start = end - Buffer.byteLength(`${text}\n`)
              // A line that begins before what may be read is left out; so is the first whole one, as nothing says so.
              if (start < floor || (start === floor && floor > 0)) break
              expected.push({ id: `${days[at]}:${end}`, text })
              end = start
            }
          }
          expect(await read(maxBytes)).to.deep.equal(expected)
        },
      ),
      { numRuns: 60, seed: 1 },
    )
  })

  it('let calls have their turn, as a reader may ask for many of them', async () => {
    writeFileSync(join(home.path, 'audit-2026-11-25.ndjson'), `${'x'.repeat(999)}\n`.repeat(8_000))
    let turns = 0
    const count = () => {
      turns++
      timer = setImmediate(count)
    }
    let timer = setImmediate(count)
    expect(await read(8_388_608)).to.have.length(8_000)
    clearImmediate(timer)
    expect(turns).to.be.above(100)
  })
})
