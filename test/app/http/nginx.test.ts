// Streams through nginx with the configuration that Debian ships, which buffers the responses of servers.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { expect } from 'chai'
import { endWithRunner } from '../../support/child-lifetime.js'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { freePort } from '../../support/loopback.js'
import { event, json, type Message, result, serverOf } from '../../support/mcp-server.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

const program = '/usr/sbin/nginx'
const config = '/etc/nginx/nginx.conf'
const isInstalled = existsSync(config) && spawnSync(program, ['-v']).error === undefined

/** nginx in front of `origin`: its own settings are Debian's, but for the paths that it writes to. */
async function startNginx(origin: string): Promise<AsyncDisposable & { readonly url: string }> {
  const folder = new TemporaryDir()
  const port = await freePort()
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((kind) => `${kind}_temp_path ${join(folder.path, kind)};`)
    .join(' ')
  const text = readFileSync(config, 'utf8')
    .replace(/^user .*$/m, '')
    .replace(/^include .*modules-enabled.*$/m, '')
    .replaceAll(/\/run\/nginx\.pid|\/var\/log\/nginx\/\w+\.log/g, (path) =>
      join(folder.path, path.split('/').at(-1) ?? ''),
    )
    .replace(/include \/etc\/nginx\/conf\.d\/\*\.conf;/, temporary)
    .replace(
      /include \/etc\/nginx\/sites-enabled\/\*;/,
      `server { listen 127.0.0.1:${port}; location / { proxy_pass ${origin}; } }`,
    )
  const file = join(folder.path, 'nginx.conf')
  writeFileSync(file, text)
  const child = endWithRunner(
    spawn(
      program,
      ['-p', folder.path, '-c', file, '-e', join(folder.path, 'error.log'), '-g', 'daemon off;'],
      {
        stdio: 'ignore',
      },
    ),
  )
  const ended = once(child, 'exit')
  const url = `http://127.0.0.1:${port}`
  while (
    !(await fetch(`${url}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    ))
  ) {
    if (child.exitCode !== null) throw new Error(readFileSync(join(folder.path, 'error.log'), 'utf8'))
  }
  return {
    url,
    async [Symbol.asyncDispose]() {
      child.kill('SIGQUIT')
      await ended
      folder[Symbol.dispose]()
    },
  }
}

describe('a stream behind nginx', function () {
  this.timeout(60_000)
  let server: Awaited<ReturnType<typeof serverOf>>
  let gateway: TestGateway
  let nginx: Awaited<ReturnType<typeof startNginx>>
  /** Ends the response of the call that the server holds. */
  let release: () => void

  before(async function () {
    if (!isInstalled) {
      process.stderr.write(
        'nginx is not installed (apt-get install nginx): streams behind it are not tested\n',
      )
      this.skip()
    }
    const progress = event({
      jsonrpc: '2.0',
      method: 'notifications/progress',
      params: { progressToken: 1, progress: 1 },
    })
    server = await serverOf((message: Message, response: ServerResponse, { method }) => {
      if (method === 'GET') response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      else if (message['method'] === 'tools/call') {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).write(progress)
        release = () => response.end(event(result(message)))
      } else if (message['id'] === undefined) response.writeHead(202).end()
      else
        json(response, {
          jsonrpc: '2.0',
          id: message['id'],
          result: { tools: [{ name: 'slow', inputSchema: {} }] },
        })
    }, 'session-of-the-server')
    gateway = await startTestGateway({ targets: { files: `${server.upstream.url}/mcp` } })
    nginx = await startNginx(gateway.url)
  })
  after(async () => {
    await nginx?.[Symbol.asyncDispose]()
    await gateway?.[Symbol.asyncDispose]()
    await server?.upstream[Symbol.asyncDispose]()
  })

  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2025-11-25',
  }
  const post = (url: string, message: object, more: Record<string, string> = {}) =>
    fetch(url, { method: 'POST', headers: { ...headers, ...more }, body: JSON.stringify(message) })
  const sessionAt = async (path: string): Promise<Record<string, string>> => {
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 't', version: '1' },
    }
    const begun = await post(nginx.url + path, { jsonrpc: '2.0', id: 0, method: 'initialize', params })
    await begun.text()
    return { 'mcp-session-id': begun.headers.get('mcp-session-id') ?? '' }
  }

  for (const [path, name] of [
    ['/mcp/files', 'slow'],
    ['/mcp', 'files__slow'],
  ] as const) {
    it(`brings the progress of a call while the call runs: ${path}`, async () => {
      const session = await sessionAt(path)
      const params = { name, arguments: {}, _meta: { progressToken: 1 } }
      const response = await post(
        nginx.url + path,
        { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
        session,
      )
      let text = ''
      // The server responds only once the client has the progress.
      for await (const piece of response.body ?? []) {
        text += Buffer.from(piece as Uint8Array).toString()
        if (text.includes('notifications/progress') && !text.includes('"result"')) release()
      }
      expect(text).to.contain('"hi"')
    })

    it(`begins at once, with a comment, if it has notifications: ${path}`, async () => {
      const left = new AbortController()
      const response = await fetch(nginx.url + path, {
        headers: { ...headers, ...(await sessionAt(path)) },
        signal: left.signal,
      })
      expect(response.headers.get('content-type')).to.equal('text/event-stream')
      const first = await response.body?.getReader().read()
      expect(Buffer.from(first?.value ?? []).toString()).to.match(/^:/)
      left.abort()
    })
  }

  it('forbids proxies to buffer it, whatever the server says', async () => {
    const session = await sessionAt('/mcp/files')
    const params = { name: 'slow', arguments: {} }
    const response = await post(
      `${gateway.url}/mcp/files`,
      { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
      session,
    )
    expect(response.headers.get('x-accel-buffering')).to.equal('no')
    release()
    await response.text()
  })
})
