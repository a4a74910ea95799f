// Runs the policies and commands that docs/server.md shows.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { type RequestOptions, request } from 'node:https'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { hostSchema } from 'svc-sdk/internal/policy/config'
import { Running } from '../support/gateway-process.js'
import { svc } from '../support/svc.js'
import { TemporaryDir } from '../support/temporary-dir.js'

const page = readFileSync(fileURLToPath(new URL('../../../docs/server.md', import.meta.url)), 'utf8')
const [, policy = ''] = /^```yaml\n(.*?)^```$/ms.exec(page) ?? []
const [, commands = ''] = /^```sh\n(.*?)^```$/ms.exec(page) ?? []

describe('docs/server.md', () => {
  it('shows a policy and a certificate with which a gateway serves TLS', async () => {
    using home = new TemporaryDir()
    const local = commands.replaceAll('npx svc-sdk', `${process.execPath} ${svc}`)
    execFileSync('sh', ['-ec', local], { cwd: home.path, stdio: ['ignore', 'ignore', 'pipe'] })
    writeFileSync(join(home.path, 'policy.yaml'), policy)
    await using gateway = new Running([
      ...['--policy', join(home.path, 'policy.yaml'), '--port', '0', '--dir', join(home.path, 'state')],
    ])
    const { url = '' } = await gateway.line('listening')
    expect(url).to.match(/^https:\/\/0\.0\.0\.0:\d+$/)
    const ca = readFileSync(join(home.path, 'tls', 'gateway.crt'))
    const asked = { ca, port: new URL(url).port, path: '/readyz', servername: 'localhost', agent: false }
    expect(await respondTo({ ...asked, host: 'localhost' })).to.equal('{"status":"ready"}')
    const named = { ...asked, host: '127.0.0.1', headers: { host: 'gateway.example.com' } }
    expect(await respondTo(named)).to.equal('{"status":"ready"}')
    const other = { ...asked, host: '127.0.0.1', headers: { host: 'other.example.com' } }
    expect(await respondTo(other)).to.contain('server.allowedHosts')
  })

  it('states the defaults that the schema has', () => {
    const { server } = hostSchema.parse({ tenant: 'acme', port: 0, targets: {} })
    const told = [...page.matchAll(/^\|[^|]*\| `(\w+)`[^|]*\| +([\d,]+)(?: (s|KiB|MiB))? +\|/gm)]
    const units: Record<string, number> = { s: 1000, KiB: 1024, MiB: 1024 * 1024 }
    expect(told.map(([, name]) => name)).to.include('maxBodyBytes')
    for (const [, name = '', figure = '', unit = ''] of told) {
      const expected = Number(figure.replaceAll(',', '')) * (units[unit] ?? 1)
      expect((server as Record<string, unknown>)[name], name).to.equal(expected)
    }
  })
})

function respondTo(options: RequestOptions): Promise<string> {
  return new Promise((resolve, reject) => {
    request(options, (response) => {
      const pieces: Buffer[] = []
      response.on('data', (piece: Buffer) => pieces.push(piece))
      response.on('end', () => resolve(Buffer.concat(pieces).toString()))
    })
      .once('error', reject)
      .end()
  })
}
