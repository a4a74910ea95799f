import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { joinFile, type NamedObject } from '@svc/plugin-audit/internal/log/tools/fetch/joined-file'
import { expect } from 'chai'
import { temporaryDir } from '../../../../../support/temporary-dir.js'

/** Accepts everything, and restores what comes before a `!`. */
const judge = {
  isForeign: () => false,
  accepts: () => true,
  partOf: (bytes: Buffer) => (bytes.includes('!') ? bytes.subarray(0, bytes.indexOf('!')) : bytes),
  knownEnd: undefined,
}

describe('a file that is joined from objects', () => {
  const dir = temporaryDir()
  const texts = new Map<string, string>()
  let server: Server

  beforeEach(async () => {
    server = createServer(({ url = '' }, response) => response.end(texts.get(url.slice(1))))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  })
  afterEach(() => {
    server.closeAllConnections()
    server.close()
  })

  const at = (start: number, text: string): NamedObject => {
    const key = `${start}-${text}`
    texts.set(encodeURIComponent(key), text)
    const digest = createHash('sha256').update(text).digest('hex').slice(0, 16)
    return { file: 'file', key, start, end: start + text.length, digest }
  }

  async function joined(...objects: NamedObject[]) {
    const { port } = server.address() as AddressInfo
    const source = {
      prefix: async () => '',
      list: async function* () {
        yield* []
      },
      url: async (key: string) => ({
        url: `http://127.0.0.1:${port}/${encodeURIComponent(key)}`,
        headers: {},
      }),
    }
    const sizes: number[] = []
    const { problems } = await joinFile(
      source,
      objects,
      { dir: dir.path, path: 'file', onBytes: (size) => sizes.push(size) },
      judge,
    )
    expect(sizes.toSorted()).to.deep.equal(objects.map(({ start, end }) => end - start).toSorted())
    return { text: readFileSync(join(dir.path, 'file'), 'utf8'), problems }
  }

  it('leaves out an object over bytes that were left out of another one', async () => {
    expect(await joined(at(0, 'ab!junk'), at(0, 'ab'), at(7, 'cd'))).to.deep.equal({
      text: 'abcd',
      problems: [
        '0-ab!junk has 5 bytes that are not those of the log: they are left out',
        '0-ab differs from what another object has there: it is left out',
      ],
    })
  })

  it('takes an object over equal bytes of another one', async () => {
    expect(await joined(at(0, 'abcd'), at(1, 'bc'), at(4, 'ef'))).to.deep.equal({
      text: 'abcdef',
      problems: [],
    })
  })
})
