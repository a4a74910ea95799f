// Lists the modules that a process loads.

export function listModules(fd: 1 | 2): readonly [string, string] {
  const hooks = `import { writeSync } from 'node:fs'
export const load = (url, context, next) => {
  writeSync(${fd}, url + '\\n')
  return next(url, context)
}`
  const register = `import { register } from 'node:module'\nregister(${JSON.stringify(asUrl(hooks))})`
  return ['--import', asUrl(register)]
}

function asUrl(code: string): string {
  return `data:text/javascript,${encodeURIComponent(code)}`
}
