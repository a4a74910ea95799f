// The places in which common MCP clients keep the configuration of the servers that they start.
import { posix, win32 } from 'node:path'

export interface ClientMachine {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly platform: NodeJS.Platform
  /** The absolute directory whose configurations are looked for beside the user's. */
  readonly dir: string
}

/** A configuration file that a client may have. */
export interface ConfigurationPlace {
  readonly client: string
  /** Absolute. */
  readonly file: string
  /** The members that lead to the servers; `*` is each member. */
  readonly servers: readonly (readonly string[])[]
  /** A file of a directory comes with what was cloned into it: its commands are another's. */
  readonly isOfDirectory: boolean
  /** Whether the client accepts comments and trailing commas. */
  readonly hasComments: boolean
}

type Form = Pick<ConfigurationPlace, 'client' | 'servers' | 'hasComments'>

/** A server that a client reaches by a URL. */
export interface RemoteServer {
  readonly name: string
  readonly url: string
  /** The id of the client at the issuer, if clients do not register themselves. */
  readonly clientId: string | undefined
}

/** The entry for a server at a URL in the configuration of a client. */
export interface RemoteConfiguration {
  readonly client: string
  /** Its file: in the directory of a project if the client reads one there, else the name of the user's. */
  readonly file: string
  readonly text: string
}

const claudeDesktop: Form = { client: 'Claude Desktop', servers: [['mcpServers']], hasComments: false }
const claudeCode: Form = {
  client: 'Claude Code',
  servers: [['mcpServers'], ['projects', '*', 'mcpServers']],
  hasComments: false,
}
const cursor: Form = { client: 'Cursor', servers: [['mcpServers']], hasComments: true }
const vsCode: Form = { client: 'VS Code', servers: [['servers']], hasComments: true }
const zed: Form = { client: 'Zed', servers: [['context_servers']], hasComments: true }
const windsurf: Form = { client: 'Windsurf', servers: [['mcpServers']], hasComments: true }

const callbackPort = 8976
const remoteCommand = 'mcp-remote@0.15.1'

/** The entry for clients that sign in at no URL, or not with an id. */
const byCommand = (url: string, id: string | undefined) => ({
  command: 'npx',
  args: ['-y', remoteCommand, url, ...staticClient(id)],
})

/** The entry of a server at a URL, for each client of docs/clients.md. */
const remoteEntries: readonly (readonly [Form, (url: string, clientId: string | undefined) => object])[] = [
  [claudeDesktop, byCommand],
  [claudeCode, (url, id) => ({ type: 'http', url, ...(id && { oauth: { clientId: id, callbackPort } }) })],
  [cursor, (url, id) => ({ url, ...(id && { auth: { CLIENT_ID: id } }) })],
  [vsCode, (url, id) => ({ type: 'http', url, ...(id && { oauth: { clientId: id } }) })],
  [zed, (url, id) => ({ url, ...(id && { oauth: { client_id: id } }) })],
  [windsurf, (url, id) => (id === undefined ? { serverUrl: url } : byCommand(url, id))],
]

function staticClient(id: string | undefined): string[] {
  if (id === undefined) return []
  return [String(callbackPort), '--static-oauth-client-info', JSON.stringify({ client_id: id })]
}

/** The configurations for a server at a URL, one for each client of docs/clients.md. */
export function remoteConfigurations({ name, url, clientId }: RemoteServer): RemoteConfiguration[] {
  const places = configurationPlaces({ env: { HOME: '/' }, platform: 'linux', dir: '.' })
  return remoteEntries.map(([{ client, servers }, entry]) => {
    const own = places.filter((place) => place.client === client)
    const place = own.find(({ isOfDirectory }) => isOfDirectory)
    const file = place?.file ?? posix.basename(own[0]?.file ?? '')
    const [[member = ''] = []] = servers
    return { client, file, text: JSON.stringify({ [member]: { [name]: entry(url, clientId) } }, null, 2) }
  })
}

/** The user's files of all clients, then those of the directory. The files need not exist. */
export function configurationPlaces({ env, platform, dir }: ClientMachine): ConfigurationPlace[] {
  const { join } = platform === 'win32' ? win32 : posix
  const home = (platform === 'win32' ? env['USERPROFILE'] : env['HOME']) || undefined
  const xdg = env['XDG_CONFIG_HOME'] || (home && join(home, '.config'))
  const appData = env['APPDATA'] || undefined
  const library = home && join(home, 'Library', 'Application Support')
  const config = platform === 'win32' ? appData : platform === 'darwin' ? library : xdg
  const users = (form: Form, base: string | undefined, ...path: string[]): ConfigurationPlace[] =>
    base === undefined ? [] : [{ ...form, file: join(base, ...path), isOfDirectory: false }]
  const directorys = (form: Form, ...path: string[]): ConfigurationPlace => ({
    ...form,
    file: join(dir, ...path),
    isOfDirectory: true,
  })
  return [
    ...users(claudeDesktop, config, 'Claude', 'claude_desktop_config.json'),
    ...users(claudeCode, env['CLAUDE_CONFIG_DIR'] || home, '.claude.json'),
    ...users(cursor, home, '.cursor', 'mcp.json'),
    ...users(vsCode, config, 'Code', 'User', 'mcp.json'),
    ...users(vsCode, config, 'Code - Insiders', 'User', 'mcp.json'),
    ...(platform === 'win32'
      ? users(zed, appData, 'Zed', 'settings.json')
      : users(zed, xdg, 'zed', 'settings.json')),
    ...users(windsurf, home, '.codeium', 'windsurf', 'mcp_config.json'),
    directorys(claudeCode, '.mcp.json'),
    directorys(cursor, '.cursor', 'mcp.json'),
    directorys(vsCode, '.vscode', 'mcp.json'),
    directorys(zed, '.zed', 'settings.json'),
  ]
}
