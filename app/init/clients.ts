// Where common MCP clients keep the configuration of the servers that they start.
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
