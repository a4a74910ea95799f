import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { expect } from 'chai'
import { refuseRequest, requestPath } from 'svc-sdk/internal/http/request-errors'

function requestFor(url: string): IncomingMessage {
  const message = new IncomingMessage(new Socket())
  return Object.assign(message, { url, method: 'GET', httpVersion: '1.1', headers: { host: 'gateway:8787' } })
}

describe('the path of a request', () => {
  for (const [url, path] of [
    ['/mcp/files?x=1', '/mcp/files?x=1'],
    ['http://gateway:8787/mcp/files?x=1', '/mcp/files?x=1'],
    ['http://gateway:8787', '/'],
    ['http://gateway:8787?x=1', '/?x=1'],
  ] as const) {
    it(`of ${url} is ${path}, and the request is not changed`, () => {
      const message = requestFor(url)
      expect(refuseRequest(message, 100, {})).to.equal(undefined)
      expect(requestPath(message)).to.equal(path)
      expect(message.url).to.equal(url)
    })
  }
})
