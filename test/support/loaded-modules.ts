// Lists the modules that a process loads.

/** Flags of Node that print the address of each module to the file descriptor. */
export function listModules(fd: 1 | 2): readonly [string, string] {
  const hooks = `import { writeSync } from 'node:fs'
export const load = (url, context, next) => {
  writeSync(${fd}, url + '\\n')
  return next(url, context)
}`
  const register = `import module, { register } from 'node:module'
import { writeSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
register(${JSON.stringify(asUrl(hooks))})
const load = module._extensions['.js']
module._extensions['.js'] = (loaded, file) => {
  writeSync(${fd}, pathToFileURL(file) + '\\n')
  load(loaded, file)
}`
  return ['--import', asUrl(register)]
}

function asUrl(code: string): string {
  return `data:text/javascript,${encodeURIComponent(code)}`
}
