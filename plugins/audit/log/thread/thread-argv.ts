// What a thread is started with: the options of the process, such as those on TLS, without the ones that only
// tell how the program itself was given. With `node --input-type=module -e …` every thread would fail.

/** For `execArgv` of a `Worker`. */
export function threadArgv(): string[] {
  const ofProcess = process.execArgv
  return ofProcess.filter((word, at) => !isInputType(word) && ofProcess[at - 1] !== '--input-type')
}

function isInputType(word: string): boolean {
  return word === '--input-type' || word.startsWith('--input-type=')
}
