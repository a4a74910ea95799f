// Opens a URL in the user's browser with the system's own program.
import { spawn } from 'node:child_process'

/** The program and the arguments before the URL. */
const openers: Readonly<Partial<Record<NodeJS.Platform, readonly [string, ...string[]]>>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
}
const defaultOpener = ['xdg-open'] as const

/** Resolves when the program has started; rejects if there is none. No shell reads the URL. */
export function openUrl(url: URL, platform: NodeJS.Platform = process.platform): Promise<void> {
  const [command, ...args] = openers[platform] ?? defaultOpener
  return new Promise((resolve, reject) => {
    const opener = spawn(command, [...args, url.href], { stdio: 'ignore', detached: true })
    opener.once('error', reject)
    opener.once('spawn', () => {
      opener.unref()
      resolve()
    })
  })
}
