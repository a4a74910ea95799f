import { request } from 'node:http'
import { expect } from 'chai'
import { LoopbackRedirect } from 'svc-sdk/internal/stdio/gateway/sign-in/sign-in'

/** The status of the response to a request with this target, as it is. */
const statusOf = (port: string, target: string): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const asked = request({ host: '127.0.0.1', port, path: target }, (response) => {
      response.resume()
      resolve(response.statusCode)
    })
    asked.once('error', reject)
    asked.end()
  })

describe('the loopback redirect', () => {
  it('refuses what is not a URL, and still accepts the redirect', async () => {
    await using redirect = await LoopbackRedirect.open(0)
    const { port } = new URL(redirect.uri)
    const arrival = redirect.arrival('s1', new AbortController().signal)
    expect(await statusOf(port, '//')).to.equal(400)
    expect(await statusOf(port, '/callback?state=s1&code=c')).to.equal(200)
    expect((await arrival).searchParams.get('code')).to.equal('c')
  })
})
