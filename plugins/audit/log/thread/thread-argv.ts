// The Node options for a worker thread: those of the process, such as TLS options, without the ones that describe
// how the main program is given. With `node --input-type=module -e …` every thread would fail.

/** For `execArgv` of a `Worker`. */
export function threadArgv(): string[] {
  const ofProcess = process.execArgv
  return ofProcess.filter((word, at) => !isInputType(word) && ofProcess[at - 1] !== '--input-type')
}

function isInputType(word: string): boolean {
  return word === '--input-type' || word.startsWith('--input-type=')
}
