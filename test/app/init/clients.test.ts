// Where clients have their configurations, and what `svc doctor` says of them.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { doctorCommand } from 'svc-sdk/internal/cli/doctor'
import { configurationPlaces } from 'svc-sdk/internal/init/clients/clients'
import { runCommand } from '../../support/command.js'
import { Home } from './home.js'

describe('servers that clients start', () => {
  it('has doctor name the servers of clients that go round the gateway, until it governs them', async () => {
    using home = new Home()
    home.write('Cursor', { mcpServers: { files: { command: 'true' } } })
    const own = join(home.path, 'own')
    mkdirSync(own)
    generateKeyFile(join(own, 'key'))
    writeFileSync(
      join(own, 'policy.yaml'),
      `tenant: acme
port: 8787
targets: {}
entitlements: open
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://key } }
quotas: { adapter: memory }
`,
    )
    home.write('Windsurf', { mcpServers: { gateway: { serverUrl: 'http://127.0.0.1:8787/mcp/x' } } })
    home.write('Zed', Buffer.from('{'))
    const clients = async () => {
      const { out } = await runCommand(
        (io) => doctorCommand(io, home.env),
        [join(own, 'policy.yaml'), '--json'],
      )
      const { checks } = JSON.parse(out) as { checks: { section: string; message: string }[] }
      return checks.flatMap(({ section, message }) => (section === 'clients' ? [message] : []))
    }
    const broken = 'Zed, ~/.config/zed/settings.json: not JSON at 1:2, so its servers are not known'
    const cursor = 'Cursor, ~/.cursor/mcp.json: goes round the gateway: files'
    expect(await clients()).to.deep.equal([cursor, broken])
    await home.run('--yes')
    expect(await clients()).to.deep.equal([broken])
  })
})

describe('the places of configurations', () => {
  const homes = {
    linux: { env: { HOME: '/home/ada', XDG_CONFIG_HOME: '/home/ada/cfg' }, dir: '/p' },
    darwin: { env: { HOME: '/Users/ada' }, dir: '/p' },
    win32: {
      env: { USERPROFILE: 'C:\\Users\\ada', APPDATA: 'C:\\Users\\ada\\AppData\\Roaming' },
      dir: 'C:\\p',
    },
  } as const
  const expected = {
    linux: [
      '/home/ada/cfg/Claude/claude_desktop_config.json',
      '/home/ada/.claude.json',
      '/home/ada/cfg/Code/User/mcp.json',
      '/home/ada/cfg/zed/settings.json',
      '/home/ada/.codeium/windsurf/mcp_config.json',
      '/p/.mcp.json',
    ],
    darwin: [
      '/Users/ada/Library/Application Support/Claude/claude_desktop_config.json',
      '/Users/ada/Library/Application Support/Code/User/mcp.json',
      '/Users/ada/.config/zed/settings.json',
      '/p/.vscode/mcp.json',
    ],
    win32: [
      'C:\\Users\\ada\\AppData\\Roaming\\Claude\\claude_desktop_config.json',
      'C:\\Users\\ada\\.cursor\\mcp.json',
      'C:\\Users\\ada\\AppData\\Roaming\\Zed\\settings.json',
      'C:\\p\\.cursor\\mcp.json',
    ],
  } as const
  for (const platform of ['linux', 'darwin', 'win32'] as const) {
    it(`are those of ${platform}`, () => {
      const files = configurationPlaces({ ...homes[platform], platform }).map(({ file }) => file)
      expect(files).to.include.members([...expected[platform]])
    })
  }
})
