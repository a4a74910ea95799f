import { createHash } from 'node:crypto'
import { closeSync, openSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { storedRanges } from '@svc/plugin-audit/internal/log/upload/stored-files'
import { UploadThrottle } from '@svc/plugin-audit/internal/log/upload/throttle'
import { expect } from 'chai'
import { temporaryDir } from '../../../../support/temporary-dir.js'

const bytes = Buffer.from(Array.from({ length: 100 }, (_, i) => i))

describe('the ranges of a file that objects hold', () => {
  const dir = temporaryDir()
  let reads: number

  /** The covered bytes of a file of 100; each of `listed` is `[start, end]` or an object with other members. */
  async function covered(
    listed: readonly (readonly [start: number, end: number, changes?: object])[],
    signal = new AbortController().signal,
  ): Promise<number> {
    const path = join(dir.path, 'file')
    writeFileSync(path, bytes)
    async function* objects() {
      for (const [start, end, changes] of listed) {
        const digest = createHash('sha256').update(bytes.subarray(start, end)).digest('hex')
        yield {
          key: `f-${start}-${end}-${digest.slice(0, 16)}.ndjson`,
          contentLength: end - start,
          ...changes,
        }
      }
    }
    const ranges = await storedRanges(objects(), new Map([['f-', bytes.length]]))
    reads = 0
    const throttle = new UploadThrottle(new Int32Array(new SharedArrayBuffer(4)))
    const wait = throttle.wait.bind(throttle)
    throttle.wait = () => {
      reads++
      return wait()
    }
    const file = openSync(path, 'r')
    try {
      return (await ranges.get('f-')?.covered(file, throttle, signal)) ?? -1
    } finally {
      closeSync(file)
    }
  }

  for (const [title, listed, expected] of [
    ['none', [], 0],
    [
      'a sequence',
      [
        [0, 10],
        [10, 100],
        [5, 20],
      ],
      100,
    ],
    [
      'a sequence in any order',
      [
        [30, 60],
        [0, 10],
        [10, 30],
      ],
      60,
    ],
    [
      'a gap',
      [
        [0, 10],
        [20, 100],
      ],
      10,
    ],
    [
      'the longer of two sequences',
      [
        [0, 10],
        [10, 50],
        [0, 40],
        [40, 90],
      ],
      90,
    ],
    [
      'the sequence that goes on',
      [
        [0, 10],
        [10, 90],
        [0, 40],
      ],
      90,
    ],
    [
      'an object past the end of the file',
      [
        [0, 10],
        [10, 101],
      ],
      10,
    ],
    ['an object of another length', [[0, 10, { contentLength: 11 }]], 0],
    [
      'an object of other bytes',
      [
        [0, 10],
        [10, 20, { key: `f-10-20-${'0'.repeat(16)}.ndjson` }],
      ],
      10,
    ],
    [
      'an object with another checksum',
      [
        [0, 10],
        [10, 20, { checksumSha256: 'AA==' }],
      ],
      10,
    ],
    ['an object of another file', [[0, 10, { key: 'f-1-0-10-0000000000000000.ndjson' }]], 0],
    [
      'an empty object',
      [
        [0, 0],
        [0, 10],
      ],
      10,
    ],
  ] as const) {
    it(`end at ${expected} for ${title}`, async () => {
      expect(await covered(listed)).to.equal(expected)
    })
  }

  it('are read once along a sequence, however many objects of other logs begin where it begins', async () => {
    const own = Array.from({ length: 10 }, (_, i) => [i * 10, i * 10 + 10] as const)
    const others = Array.from({ length: 50 }, (_, i) => {
      const key = `f-0-${i + 1}-${String(i).padStart(16, '0')}.ndjson`
      return [0, i + 1, { key }] as const
    })
    expect(await covered([...others, ...own])).to.equal(100)
    expect(reads).to.equal(10)
  })

  it('are read a few times at most, whatever the listing says', async () => {
    const listed = Array.from({ length: 99 }, (_, i) => [i, i + 1] as const)
    const toEnd = Array.from({ length: 99 }, (_, i) => {
      const key = `f-${i}-100-${'0'.repeat(16)}.ndjson`
      return [i, 100, { key }] as const
    })
    await covered([...listed, ...toEnd])
    // 100, 99, 98, 97 and 96 bytes.
    expect(reads).to.equal(5)
  })

  it('are not read further after an abort', async () => {
    const abort = new AbortController()
    abort.abort(new Error('closed'))
    const error = await covered([[0, 10]], abort.signal).catch((reason: unknown) => reason)
    expect(error).to.have.property('message', 'closed')
  })
})
