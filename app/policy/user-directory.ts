// The directory for the files that svc keeps for a user, outside any project.
import { homedir } from 'node:os'
import { join } from 'node:path'

/** XDG Base Directory on Linux, and its equivalent elsewhere. */
export function userDirectory(env: Readonly<Record<string, string | undefined>>): string {
  const home = homedir()
  const { platform } = process
  if (platform === 'darwin') return join(home, 'Library', 'Application Support', 'svc')
  if (platform === 'win32') return join(env['LOCALAPPDATA'] ?? join(home, 'AppData', 'Local'), 'svc')
  return join(env['XDG_STATE_HOME'] || join(home, '.local', 'state'), 'svc')
}
