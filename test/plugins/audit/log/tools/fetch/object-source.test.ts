import { ControlPlaneSource, download } from '@svc/plugin-audit/internal/log/tools/fetch/object-source'
import { expect } from 'chai'
import { ofEachTest } from '../../../../../support/parts.js'
import { failing, OWNER, startCloud } from '../../upload/cloud.js'
import { codeOf } from '../../writer/records.js'

describe('the source of a restore', () => {
  let source: ControlPlaneSource
  const cloud = ofEachTest(() => startCloud())
  beforeEach(() => {
    source = new ControlPlaneSource({ apiBaseUrl: cloud.url, auditKey: 'Bearer k' })
  })
  afterEach(() => source.close())

  async function listed(): Promise<string[]> {
    const keys: string[] = []
    for await (const { key } of source.list(`${OWNER}/`)) keys.push(key)
    return keys
  }

  it('repeats a page of the listing that fails, and not the pages before', async () => {
    cloud.pageObjects = 1
    for (const name of ['a', 'b', 'c']) cloud.objects.set(`${OWNER}/${name}`, Buffer.from('x'))
    let asked = 0
    cloud.intercept = ({ path }, response) => {
      if (!path.includes('/objects') || ++asked !== 2) return false
      response.writeHead(503).end()
      return true
    }
    expect(await listed()).to.deep.equal(['a', 'b', 'c'].map((name) => `${OWNER}/${name}`))
    expect(cloud.asked('/objects')).to.have.length(4)
  })

  it('does not repeat a refused listing', async () => {
    cloud.intercept = failing('/objects', 403)
    expect(await codeOf(listed())).to.equal('upload_rejected')
    expect(cloud.asked('/objects')).to.have.length(1)
  })

  for (const [title, first, code, requests] of [
    ['repeats a download that fails', 503, 'resolved', 2],
    ['repeats no download that is refused', 403, 'read_failed', 1],
  ] as const) {
    it(title, async () => {
      cloud.intercept = ({ path }, response) => {
        if (path.includes('download-url')) response.end(JSON.stringify({ url: `${cloud.url}/get` }))
        else if (path === '/get') response.writeHead(cloud.asked('/get').length === 1 ? first : 200).end('ok')
        else return false
        return true
      }
      expect(await codeOf(download(source, `${OWNER}/a`, 2))).to.equal(code)
      expect(cloud.asked('/get')).to.have.length(requests)
    })
  }

  it('reads no more of an object than its key names', async () => {
    let isClosed = false
    cloud.intercept = ({ path }, response) => {
      if (path.includes('download-url')) response.end(JSON.stringify({ url: `${cloud.url}/get` }))
      else if (path === '/get') {
        // A response without an end.
        const more = () => response.write(Buffer.alloc(1_048_576, 'a'))
        response.on('drain', more).on('close', () => {
          isClosed = true
        })
        more()
      } else return false
      return true
    }
    const { bytes, isCut } = await download(source, `${OWNER}/a`, 100_000)
    expect([bytes.length, isCut]).to.deep.equal([100_000, true])
    while (!isClosed) await new Promise((resolve) => setImmediate(resolve))
  })
})
