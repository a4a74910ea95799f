import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'
import { ofSuite } from '../../support/parts.js'

const ofMcp = 'GET, POST, DELETE'

describe('a request with a wrong method or content type', () => {
  const gateway = ofSuite(() => startTestGateway({ targets: { files: 'http://127.0.0.1:1' } }))

  for (const [path, methods, allow] of [
    ['/mcp', ['PUT', 'PATCH', 'HEAD', 'OPTIONS'], ofMcp],
    ['/mcp/files', ['PUT', 'PATCH', 'HEAD', 'OPTIONS'], ofMcp],
    ['/mcp/files/read@1', ['GET', 'PUT', 'DELETE', 'HEAD'], 'POST'],
    ['/a2a/invoke', ['GET', 'PUT', 'DELETE', 'HEAD'], 'POST'],
  ] as const) {
    for (const method of methods) {
      it(`gets 405 with the methods of the path: ${method} ${path}`, async () => {
        const response = await fetch(`${gateway.url}${path}`, { method })
        expect(response.status).to.equal(405)
        expect(response.headers.get('allow')).to.equal(allow)
        const text = await response.text()
        if (method !== 'HEAD')
          expect(JSON.parse(text)).to.include({ error: 'METHOD_NOT_ALLOWED', sent: false })
      })
    }
  }

  for (const path of ['/mcp', '/mcp/files']) {
    it(`gets 415 if its body is declared as text: POST ${path}`, async () => {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' })
      const response = await fetch(`${gateway.url}${path}`, { method: 'POST', body })
      expect(response.status).to.equal(415)
      expect(await response.json()).to.deep.include({ jsonrpc: '2.0', id: null })
      expect(gateway.records().at(-1)).to.include({ status: 'error', error: 'BAD_REQUEST' })
    })
  }
})
