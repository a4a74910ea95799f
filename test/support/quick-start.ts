// The example of the quick start, as `npm start` runs it, in a directory of a test.
import { spawn } from 'node:child_process'
import { cpSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './pages.js'
import { PrintingProcess } from './printing-process.js'

/** Copies it below `home`, where a checkout has it, and returns its directory. */
export function copyQuickStart(home: string): string {
  const directory = join(home, 'examples', 'quick-start')
  cpSync(join(root, 'examples', 'quick-start'), directory, {
    recursive: true,
    filter: (path) => !path.includes('.svc'),
  })
  symlinkSync(join(root, 'node_modules'), join(home, 'node_modules'))
  return directory
}

/** Starts it at free ports. */
export function startQuickStart(directory: string): PrintingProcess {
  const child = spawn(process.execPath, ['dist/start.js'], {
    cwd: directory,
    env: { ...process.env, PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  return new PrintingProcess(child)
}
