import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { remoteConfigurations } from 'svc-sdk/internal/init/clients/clients'

const page = readFileSync(fileURLToPath(new URL('../../../../docs/clients.md', import.meta.url)), 'utf8')
const server = { name: 'files', url: 'https://gateway.example.com/mcp/files', clientId: 'svc-clients' }

describe('the configuration of a client for the URL of a gateway', () => {
  it('is the entry of docs/clients.md, for each client that has a section there', () => {
    const sections = page.split(/^## /m).filter((section) => section.includes('```json'))
    const documented = sections.map((section) => {
      const [, client, text = ''] = /^([^\n]+)\n.*?^```json\n(.*?)^```$/ms.exec(section) ?? []
      const [[member, servers] = ['', {}]] = Object.entries<Record<string, unknown>>(JSON.parse(text))
      return [client, { [member]: { files: servers['files'] } }]
    })
    const made = remoteConfigurations(server).map(({ client, text }) => [client, JSON.parse(text)])
    expect(made).to.deep.equal(documented)
  })

  it('names the file of the project, or that of the user', () => {
    expect(remoteConfigurations(server).map(({ file }) => file)).to.deep.equal([
      'claude_desktop_config.json',
      '.mcp.json',
      '.cursor/mcp.json',
      '.vscode/mcp.json',
      '.zed/settings.json',
      'mcp_config.json',
    ])
  })

  it('has no id if clients register themselves', () => {
    const texts = remoteConfigurations({ ...server, clientId: undefined }).map(({ text }) => text)
    expect(texts.join()).to.not.match(/client|oauth|auth/i)
    expect(JSON.parse(texts.at(-1) ?? '')).to.deep.equal({ mcpServers: { files: { serverUrl: server.url } } })
  })
})
